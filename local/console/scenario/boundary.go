package scenario

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Boundary plays an attack on a fixed window of one second: a burst of Limit requests just before
// the end of a window, and a second burst just after it. With the parameters of All, a fixed window
// of 20 admits 40 requests within 150 ms. A sliding window admits 20.
type Boundary struct {
	Limit   int64 // requests per second, and requests of each burst
	Percent int64 // start of the first burst, in percent of the first window
}

// BoundaryResult is a Result for three algorithms. It has the time between the two bursts.
type BoundaryResult struct {
	Result
	Span Milliseconds `json:"spanMs"`
}

// Name implements Scenario.
func (b *Boundary) Name() string { return "boundary" }

// Parameters implements Scenario.
func (b *Boundary) Parameters() []Parameter {
	return []Parameter{
		{"limit", "Limit, requests a second", &b.Limit, 1, 200},
		{"percent", "First burst, % into the window", &b.Percent, 1, 99},
	}
}

// Play implements Scenario. Its result is a BoundaryResult.
func (b *Boundary) Play() (any, error) {
	before := time.Second * time.Duration(b.Percent) / 100
	var arrivals []time.Duration
	for _, at := range []time.Duration{before, time.Second} {
		for range b.Limit {
			arrivals = append(arrivals, at)
		}
	}
	result := BoundaryResult{Span: milliseconds(time.Second - before)}
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog} {
		run, err := play(algo.Rate{Algorithm: algorithm, Requests: b.Limit, Window: time.Second}, arrivals)
		if err != nil {
			return nil, err
		}
		result.Runs = append(result.Runs, run)
	}
	return result, nil
}
