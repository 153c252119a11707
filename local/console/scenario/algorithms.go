package scenario

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Algorithms plays the same arrivals against every algorithm. A window lasts as long as an empty
// bucket takes to fill, so every limit has the same capacity and rate. With the parameters of All,
// the token bucket admits 20 requests at once and then 10 a second. The leaky bucket admits 20 at
// once too, but releases one every 100 ms.
type Algorithms struct {
	Capacity int64 // requests that a bucket or a window holds
	Rate     int64 // requests per second
	Arrivals
}

// AlgorithmsResult is a Result with the window's length.
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
