package algo_test

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A bucket admits two requests a second, and at most three at once. The caller keeps the state.
func ExampleNew() {
	m, err := algo.New(algo.Rate{Algorithm: algo.TokenBucket, Requests: 2, Window: time.Second, Burst: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	var state algo.State
	for range 4 {
		next, allowed := m.Take(state, now, 1)
		fmt.Println(allowed, m.Remaining(next, now), m.RetryAfter(state, now, 1))
		state = next
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 500ms
}
