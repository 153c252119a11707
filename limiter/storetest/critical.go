package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testCritical charges at the instants at which an answer changes, and one nanosecond before and after. Some sums of
// instants carry from the lower to the upper half of 64 bits. Two logs of the same subject contain the same instants.
func testCritical(t *testing.T, s Suite, rate algo.Rate) {
	const half = 1 << 32
	rate.Requests, rate.Burst = 8, 0
	if rate.Window > 0 {
		rate.Window = 4 * half
	}
	logs := algo.Rate{Algorithm: algo.SlidingLog, Requests: 12, Window: 2 * half}
	if rate.Calendar.Period != "" {
		logs.Window = 10 * 24 * time.Hour // long enough that no store removes an idle log during the test
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 11))
		p, limit := newPair(t, s), Limit(t, "a", rate)
		before, after := Limit(t, "b", logs), Limit(t, "c", logs)
		last := algo.Result{Machine: limit.Machine()}
		var past []taken
		now := start - start%half + algo.Instant(half/2*(seed%2))
		p.take(t, now, []limiter.Charge{{Limit: before, Cost: 1}}, nil)
		for range 60 {
			charges := []limiter.Charge{{Limit: limit, Cost: r.Int64N(4)}, {Limit: before, Cost: r.Int64N(2)}, {Limit: after, Cost: r.Int64N(2)}}
			if r.IntN(8) == 0 {
				charges[0].Force, charges[0].Cost = true, r.Int64N(18)
			}
			switch r.IntN(6) {
			case 0, 1: // the clock does not advance
			case 2:
				now = now.Add(half / 4 * time.Duration(r.IntN(4)))
			default:
				list := critical(last, now, charges[0].Cost)
				now = list[r.IntN(len(list))].Add(time.Duration(r.IntN(3) - 1))
			}
			if len(past) > 0 && r.IntN(5) == 0 { // past also has refunded charges, so the test refunds some charges twice
				k := past[r.IntN(len(past))]
				p.refund(t, k.charges, k.results, time.Duration(r.Int64N(half/2)))
				p.inspect(t)
			}
			allowed, results := p.take(t, now, charges, nil)
			last = results[0]
			if allowed && !charges[0].Force {
				past = append(past, taken{charges, results})
			}
		}
	}
}

// critical returns instants around now at which the answer to a charge of this cost on the state r changes.
func critical(r algo.Result, now algo.Instant, cost int64) []algo.Instant {
	const honest = 5 * time.Second // the largest clock skew of an honest clock
	list := []algo.Instant{now}
	switch m := r.Machine.(type) {
	case *algo.Bucket:
		tat := max(r.State.TAT, now)
		list = append(list, tat, tat.Add(m.Increment(min(cost, m.Burst))-m.Depth), tat.Add(m.Increment(cost)-2*m.Depth),
			tat.Add(-2*m.Depth-honest))
	case *algo.Window:
		w := max(r.State.Window, m.Index(now))
		list = append(list, m.Start(w), m.Start(w+1), m.Start(w+2), m.Start(w).Add(-honest),
			now.Add(m.RetryAfter(r.State, now, min(cost, m.Requests))))
	case *algo.Log:
		newest := max(r.State.Newest, now)
		list = append(list, newest, newest.Add(-honest), newest.Add(m.Length+honest))
		for i := range min(3, r.State.Entries.Len()) {
			list = append(list, r.State.Entries.At(i).Add(m.Length), r.State.Entries.At(i).Add(m.Length+honest))
		}
	}
	return list
}

// taken is a take that can be settled.
type taken struct {
	charges []limiter.Charge
	results []algo.Result
}
