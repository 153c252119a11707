package limiter

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Spread reduces the calls on the one item or key that counts a busy limit. At most one field is
// set; the zero value charges the store for every request. A Local store ignores all fields but
// Cells.
//
// A limit that changes from or to Shards or Cells, or Adaptive with a short window, starts at full
// quota, because its counts were elsewhere. A limit that no longer has Sync loses what was counted
// since the last synchronization.
type Spread struct {
	// Lease is the most requests that a process takes from the store at once, to serve them by
	// itself. The number follows its traffic, from one up. With 1 the process takes nothing in
	// advance, not even under pressure.
	//
	// It never admits too many. It may admit too few: at most one lease per process, for a second
	// at most, is charged and not used. A bucket's lease leaks at the limit's own rate, so leases
	// save more calls for windows. Near the limit, requests are taken one by one.
	Lease int64
	// Shards is the number of parts that count separately, each with its share of the limit. A
	// request charges one shard at random, and a second one if that refuses. A refusal has the
	// shortest wait of the known shards.
	//
	// It never admits too many. It may refuse while other shards have room. A cost is at most the
	// capacity of one shard, and Remaining is an estimate from the charged shard.
	Shards int
	// Sync is the interval at which a process synchronizes its own count with the store. Between
	// two synchronizations it decides by its own count.
	//
	// It may admit too many: in one interval, each process but one may admit what remained at its
	// last synchronization. The excess is a debt of at most one capacity. While the store is down
	// each process continues by itself with all of the limit. If OnError denies or divides the limit,
	// the process instead calls the store for each request until it answers. A report without an
	// answer is not sent again: the store counts it at most once, and the process that sent it
	// always counts it.
	Sync time.Duration
	// Cells is the number of processes that divide the limit, each with an equal part in its own
	// memory: Options.Cells. It admits too many only if there are more processes, and too few if
	// there are fewer or their load is uneven.
	Cells int
	// Adaptive lets each process admit a share of the limit by itself, in proportion to its share of
	// the demand. Processes report their demand and read the total. All of them together report
	// about 360 times a second, so the interval grows with their number: half a second for up to
	// 180 processes, 17 s for 6,000. Adaptive is for limits of all callers that are too large for
	// one item; it is the default for those on DynamoDB.
	//
	// Once the processes have reported, they admit at most 5 % more than the limit, and 3 % less on
	// average. When demand rises fivefold, shares grow before all have reported. The total excess is
	// then at most two seconds of the limit, plus a fifth of a second's limit for each second of the
	// interval, plus for each process one request and twice the root of its share of a second.
	// Both bounds are measured, with 600 and with 6,000 processes. If all processes start
	// together, each admits up to the limit for two seconds, until it has seen the others. Adaptive
	// may refuse if demand shifts to few processes at once. A window shorter than four intervals is
	// enforced as a rate. Decision.Overshoot reports the excess.
	Adaptive bool
}

// counted reports whether processes count by themselves and synchronize.
func (s *Spread) hasCounter() bool { return s.Sync > 0 || s.Adaptive }

// Bounds of a Spread.
const (
	MaxShards = 64
	MinSync   = 10 * time.Millisecond
	MaxCells  = 100_000
)

// validate checks s for a limit of rate and capacity.
func (s Spread) validate(rate algo.Rate, capacity int64) error {
	set := ""
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64
		unit        time.Duration
	}{
		{"lease", s.Lease, 1, capacity, 1},
		{"shards", int64(s.Shards), 2, min(MaxShards, maxParts(rate)), 1},
		{"sync_ms", int64(s.Sync), int64(MinSync), int64(rate.Window), time.Millisecond},
		{"cells", int64(s.Cells), 2, min(MaxCells, maxParts(rate)), 1},
	} {
		if f.value == 0 {
			continue
		}
		got := f.value / int64(f.unit)
		switch {
		case set != "":
			return &algo.FieldError{Field: f.name, Got: got, Want: "none beside " + set}
		case f.value < f.least || f.value > f.most:
			return &algo.FieldError{Field: f.name, Got: got, Want: fmt.Sprintf("%d to %d here", f.least/int64(f.unit), f.most/int64(f.unit))}
		case f.name == "lease" && rate.Algorithm == algo.SlidingLog:
			return &algo.FieldError{Field: f.name, Got: got, Want: "none: a sliding_log stores the instant of each request"}
		case f.name != "cells" && rate.Algorithm == algo.LeakyBucket:
			return &algo.FieldError{Field: f.name, Got: got, Want: "none: a leaky_bucket spaces its requests; a token_bucket is the same without"}
		}
		set = f.name
	}
	if s.Adaptive {
		switch {
		case set != "":
			return &algo.FieldError{Field: "adaptive", Got: true, Want: "none beside " + set}
		case rate.Algorithm == algo.SlidingLog || rate.Algorithm == algo.LeakyBucket:
			return &algo.FieldError{Field: "adaptive", Got: true, Want: "a window or a token_bucket"}
		}
	}
	return nil
}

// smallest returns the most parts that a rate can be divided into.
func maxParts(r algo.Rate) int64 {
	if r.Burst > 0 {
		return min(r.Requests, r.Burst)
	}
	return r.Requests
}

// share returns part i of n of a rate. Parts are equal; if all is set, the first ones get one request
// more, so that the parts sum up to the rate.
func divideRate(r algo.Rate, i, n int64, all bool) algo.Rate {
	one := func(whole int64) int64 {
		if all && i < whole%n {
			return whole/n + 1
		}
		return whole / n
	}
	r.Requests, r.Burst = one(r.Requests), one(r.Burst)
	return r
}
