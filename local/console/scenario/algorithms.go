package scenario

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Algorithms plays the same arrivals against every algorithm. Buckets and windows have the same capacity.
// A window is as long as an empty bucket takes to fill. With the parameters of All, the token bucket
// admits 20 at once and then 10 a second. Requests leave the queue of the leaky bucket at intervals of
// 100 ms.
type Algorithms struct {
	Capacity int64 // capacity of each bucket and each window
	Rate     int64 // requests a second
	Arrivals
}

// AlgorithmsResult is a Result with the length of a window.
type AlgorithmsResult struct {
	Result
	Window Milliseconds `json:"windowMs"`
}

// Name implements Scenario.
func (a *Algorithms) Name() string { return "algorithms" }

// Parameters implements Scenario.
func (a *Algorithms) Parameters() []Parameter {
	return append([]Parameter{
		{"capacity", "Capacity, requests", &a.Capacity, 1, 200},
		{"rate", "Rate, requests a second", &a.Rate, 1, 50},
	}, a.parameters()...)
}

// Play implements Scenario. Its result is an AlgorithmsResult.
func (a *Algorithms) Play() (any, error) {
	if a.Capacity < a.Rate {
		return nil, fmt.Errorf("capacity: got %d, want at least the rate %d, so that a window (capacity/rate) lasts a second or longer", a.Capacity, a.Rate)
	}
	window := time.Duration(a.Capacity) * time.Second / time.Duration(a.Rate)
	result := AlgorithmsResult{Window: milliseconds(window)}
	for _, rate := range []algo.Rate{
		{Algorithm: algo.FixedWindow, Requests: a.Capacity, Window: window},
		{Algorithm: algo.SlidingWindow, Requests: a.Capacity, Window: window},
		{Algorithm: algo.SlidingLog, Requests: a.Capacity, Window: window},
		{Algorithm: algo.TokenBucket, Requests: a.Rate, Window: time.Second, Burst: a.Capacity},
		{Algorithm: algo.LeakyBucket, Requests: a.Rate, Window: time.Second, Burst: a.Capacity},
	} {
		run, err := play(rate, a.instants())
		if err != nil {
			return nil, err
		}
		result.Runs = append(result.Runs, run)
	}
	return result, nil
}
