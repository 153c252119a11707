package scenario

import (
	"context"
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
	run, err := play(b.rate(), b.instants())
	if err != nil {
		return nil, err
	}
	levels, err := b.levels()
	return BucketResult{Result{[]Run{run}}, levels}, err
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
