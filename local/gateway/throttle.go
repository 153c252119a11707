package gateway

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// throttle is the token bucket of one method or route. API Gateway applies the limits to each method
// (developer guide, "Throttle requests to your REST APIs"), on a best-effort basis. This bucket is
// exact. A nil throttle allows every request.
type throttle struct {
	bucket algo.Machine
	mu     sync.Mutex
	state  algo.State
}

// newThrottle returns a throttle with a full bucket. It returns nil if bucket is nil.
func newThrottle(bucket algo.Machine) *throttle {
	if bucket == nil {
		return nil
	}
	return &throttle{bucket: bucket}
}

// allows takes one request.
func (t *throttle) allows(at time.Time) bool {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next, ok := t.bucket.Take(t.state, algo.InstantOf(at), 1)
	t.state = next
	return ok
}
