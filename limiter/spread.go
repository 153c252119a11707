package limiter

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Spread is how a limit that many requests charge spares the one item or key that it
// is counted in. At most one field is set; the zero value charges the store for every
// request. A Local store has nothing to spare and ignores all but Cells. A limit that is
// changed from or to Shards or Cells, or Adaptive with a short window, starts anew, because its counts were elsewhere, and
// one that no longer has Sync forgets what was counted since the counts were last together.
type Spread struct {
	// Lease is the most requests that an environment takes from the store at once, to
	// serve them by itself. How many it takes follows its traffic, from one up. With 1 it takes
	// none in advance, whatever the pressure.
	//
	// It admits none too many. It may admit too few: at most one lease for each
	// environment, a second long at most, is charged and not used. A bucket's lease leaks
	// at the limit's own rate, as the bucket would have, so leases pay for windows. Near
	// the limit, requests are taken one by one.
	Lease int64
	// Shards is the number of parts that count apart, each with its share of the limit.
	// A request asks one of them at random, and one more if that refuses. A refusal has the
	// shortest wait of the parts that are known.
	//
	// It admits none too many. It may refuse while parts that were not asked have room. A
	// cost is at most what one part holds, and Remaining an estimate from the part asked.
	Shards int
	// Sync is how often an environment brings its own count together with the store's.
	// Between two times it admits by what it knew at the last one.
	//
	// It may admit too many: in one interval, each environment but one as many as remained
	// at its last time. They are debts then, of at most one capacity. While the store is
	// down each environment goes on by itself, with all of the limit, unless OnError denies or
	// divides the limit: then it asks the store for each request until that answers. What is
	// sent and not answered is not sent again. The store counts it at most once, the
	// environment that sent it in any case, and the others perhaps not.
	Sync time.Duration
	// Cells is the number of processes that share the limit, each with an equal part
	// in its own memory: Options.Cells. It admits none too many if there are no more
	// processes, and too few if there are fewer or their load is uneven.
	Cells int
	// Adaptive lets each environment admit its share of the limit by itself: as large as its
	// share of the demand. It reports its demand, and learns that of all, at intervals that grow
	// with the number of environments, so that all of them together write about 360 times a
	// second: every half second for up to 180 environments, 17 s for 6,000. It is for limits of all
	// callers that are too large for one item, and the default for those on DynamoDB.
	//
	// Once the environments have reported, they admit at most 5 % more than the limit, and 3 %
	// less on average. When demand rises fivefold, they admit in all at most two seconds of
	// the limit more, and a fifth of it for each second of the interval, and for each environment
	// one request and twice the root of its share of a second: shares have a reserve, and
	// grow before all have reported. Both are measured, with 600 and with 6,000 environments. Where all environments start at once,
	// each admits up to the limit until it has seen the others, for two seconds. It may refuse
	// where demand comes to few environments at once. A window that is shorter than four
	// intervals is enforced as a rate. What is past the limit is in Decision.Overshoot.
	Adaptive bool
}

// counted reports whether environments count by themselves and bring their counts together.
func (s *Spread) counted() bool { return s.Sync > 0 || s.Adaptive }

// Bounds of a Spread.
const (
	MaxShards = 64
	MinSync   = 10 * time.Millisecond
	MaxCells  = 100_000
)

// divide checks s and returns the parts of l, if it has any.
func (s Spread) divide(l Limit) ([]*Limit, error) {
	set := ""
	for _, f := range []struct {
		name        string
		value       int64
		least, most int64
		unit        time.Duration
	}{
		{"lease", s.Lease, 1, l.machine.Capacity(), 1},
		{"shards", int64(s.Shards), 2, min(MaxShards, smallest(l.Rate)), 1},
		{"sync_ms", int64(s.Sync), int64(MinSync), int64(l.Rate.Window), time.Millisecond},
		{"cells", int64(s.Cells), 2, min(MaxCells, smallest(l.Rate)), 1},
	} {
		if f.value == 0 {
			continue
		}
		got := f.value / int64(f.unit)
		switch {
		case set != "":
			return nil, &algo.FieldError{Field: f.name, Got: got, Want: "none beside " + set}
		case f.value < f.least || f.value > f.most:
			return nil, &algo.FieldError{Field: f.name, Got: got, Want: fmt.Sprintf("%d to %d here", f.least/int64(f.unit), f.most/int64(f.unit))}
		case f.name == "lease" && l.Rate.Algorithm == algo.SlidingLog:
			return nil, &algo.FieldError{Field: f.name, Got: got, Want: "none: a sliding_log knows the instant of each request"}
		case f.name != "cells" && l.Rate.Algorithm == algo.LeakyBucket:
			return nil, &algo.FieldError{Field: f.name, Got: got, Want: "none: a leaky_bucket spaces its requests; a token_bucket is the same without"}
		}
		set = f.name
	}
	if s.Adaptive {
		switch {
		case set != "":
			return nil, &algo.FieldError{Field: "adaptive", Got: true, Want: "none beside " + set}
		case l.Rate.Algorithm == algo.SlidingLog || l.Rate.Algorithm == algo.LeakyBucket:
			return nil, &algo.FieldError{Field: "adaptive", Got: true, Want: "a window or a token_bucket"}
		}
	}
	var parts []*Limit
	for i := range max(s.Shards, min(s.Cells, 1)) {
		part := l
		part.OnError, part.LocalProcesses = OnErrorAllow, 0 // they are those of the whole
		part.Spread, part.Rate = Spread{}, share(l.Rate, int64(i), int64(max(s.Shards, s.Cells)), s.Shards > 0)
		made, err := NewLimit(part)
		if err != nil {
			return nil, err
		}
		parts = append(parts, made)
	}
	return parts, nil
}

// smallest returns the most parts that a rate can be divided into.
func smallest(r algo.Rate) int64 {
	if r.Burst > 0 {
		return min(r.Requests, r.Burst)
	}
	return r.Requests
}

// share returns part i of n of a rate. Shares are equal, and the first ones one more if
// the rate is to be used up by all of them.
func share(r algo.Rate, i, n int64, all bool) algo.Rate {
	one := func(whole int64) int64 {
		if all && i < whole%n {
			return whole/n + 1
		}
		return whole / n
	}
	r.Requests, r.Burst = one(r.Requests), one(r.Burst)
	return r
}

// Subjects returns in which subjects a store keeps what s is charged on l.
func (l *Limit) Subjects(s Subject) []Subject {
	s = l.counted(s)
	if l.Spread.Shards == 0 {
		return []Subject{s}
	}
	shards := make([]Subject, l.Spread.Shards)
	for i := range shards {
		shards[i] = s.shard(i)
	}
	return shards
}

// counted returns the subject in which l is counted for s.
func (l *Limit) counted(s Subject) Subject {
	if l.Shadow {
		return s.And(Subject{"shadow"})
	}
	return s
}

func (s Subject) shard(i int) Subject { return s.And(Subject{"shard:" + strconv.Itoa(i)}) }
