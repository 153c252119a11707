package gateway

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Of many concurrent requests, the token bucket admits exactly its burst of 500.
func TestThrottle_concurrent(t *testing.T) {
	bucket, err := algo.New(algo.Rate{Algorithm: algo.TokenBucket, Requests: 1, Window: time.Hour, Burst: 500})
	if err != nil {
		t.Fatal(err)
	}
	th, now := newThrottle(bucket), time.Unix(1_700_000_000, 0)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10_000 {
				if th.allows(now) {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 500 {
		t.Errorf("admitted requests: got %d, want 500", passed.Load())
	}
}
