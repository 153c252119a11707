package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Bucket plays arrivals against a token bucket. With the parameters of All, the bucket admits 20
// requests at once and then 10 a second.
type Bucket struct {
	Capacity int64 // tokens
	Rate     int64 // tokens per second
	Arrivals
}

// BucketResult is a Result with the level of the bucket over time.
type BucketResult struct {
	Result
	Levels []Level `json:"levels"`
}

// Level is the number of tokens in the bucket at a time, before the arrivals at that time.
type Level struct {
	At     Milliseconds `json:"atMs"`
	Tokens int64        `json:"tokens"`
}

const (
	levelStep   = 50 * time.Millisecond // time between two Levels
	longestRest = 10 * time.Second      // time after the last arrival for which Levels are shown, at most
)

// Name implements Scenario.
func (b *Bucket) Name() string { return "bucket" }

// Parameters implements Scenario.
func (b *Bucket) Parameters() []Parameter {
	return append([]Parameter{
		{"capacity", "Capacity, tokens", &b.Capacity, 1, 200},
		{"rate", "Refill, tokens a second", &b.Rate, 1, 50},
	}, b.parameters()...)
}

func (b *Bucket) rate() algo.Rate {
	return algo.Rate{Algorithm: algo.TokenBucket, Requests: b.Rate, Window: time.Second, Burst: b.Capacity}
}

// Play implements Scenario. Its result is a BucketResult.
func (b *Bucket) Play() (any, error) {
	result, err := play(b.instants(), b.rate())
	if err != nil {
		return nil, err
	}
	levels, err := b.levels()
	return BucketResult{result, levels}, err
}

// levels plays the arrivals again and records the bucket's level between them. It continues after
// the last arrival until an empty bucket would be full, but at most for longestRest.
func (b *Bucket) levels() (levels []Level, err error) {
	d, err := newDesk(limiter.Limit{Name: "demo", Rate: b.rate()})
	if err != nil {
		return nil, err
	}
	arrivals := b.instants()
	end := time.Duration(b.Seconds)*time.Second + min(time.Duration(b.Capacity)*time.Second/time.Duration(b.Rate), longestRest)
	for at := time.Duration(0); at <= end; at += levelStep {
		for len(arrivals) > 0 && arrivals[0] < at {
			if _, err := d.limiter.Take(context.Background(), d.start.Add(arrivals[0]), d.charges); err != nil {
				return nil, err
			}
			arrivals = arrivals[1:]
		}
		seen, err := d.limiter.Peek(context.Background(), d.start.Add(at), d.charges)
		if err != nil {
			return nil, err
		}
		levels = append(levels, Level{milliseconds(at), seen.Remaining})
	}
	return levels, nil
}

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
	result, err := play(arrivals, windows(b.Limit, time.Second)...)
	return BoundaryResult{result, milliseconds(time.Second - before)}, err
}

// windows returns a limit for each algorithm that counts in windows.
func windows(requests int64, window time.Duration) (list []algo.Rate) {
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog} {
		list = append(list, algo.Rate{Algorithm: algorithm, Requests: requests, Window: window})
	}
	return list
}

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
		return nil, fmt.Errorf("capacity: got %d, want at least the rate %d, so that a window (capacity/rate) lasts a second or longer",
			a.Capacity, a.Rate)
	}
	window := time.Duration(a.Capacity) * time.Second / time.Duration(a.Rate)
	rates := windows(a.Capacity, window)
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket} {
		rates = append(rates, algo.Rate{Algorithm: algorithm, Requests: a.Rate, Window: time.Second, Burst: a.Capacity})
	}
	result, err := play(a.instants(), rates...)
	return AlgorithmsResult{result, milliseconds(window)}, err
}
