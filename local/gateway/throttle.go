package gateway

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// throttle is the token bucket of one method or route (developer guide, "Throttle requests to your
// REST APIs"). AWS applies it on a best-effort basis; here it is exact. A nil throttle allows every
// request.
type throttle struct {
	bucket algo.Machine
	mu     sync.Mutex
	state  algo.State
}

// allows takes one token. It returns false if the bucket is empty.
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
