package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testAmounts charges, forces and refunds amounts of up to fifteen digits. Every state must be exact. A limit that grows from a small
// number of requests keeps its count, and one that shrinks too.
func testAmounts(t *testing.T, s Suite) {
	store, r := s.Open(t), rand.New(rand.NewPCG(1, 2))
	for _, rate := range []algo.Rate{
		{Algorithm: algo.SlidingWindow, Requests: algo.MaxAmount, Window: time.Minute},
		{Algorithm: algo.SlidingWindow, Requests: algo.MaxAmount - 1, Window: algo.MaxWindow - time.Second},
		{Algorithm: algo.FixedWindow, Requests: algo.MaxAmount, Window: time.Minute},
		{Algorithm: algo.FixedWindow, Requests: algo.MaxAmount, Calendar: algo.Calendar{Period: algo.Day}},
	} {
		p, l := newPairOf(store, s), Limit(t, "a", rate)
		few := rate
		few.Requests = 20
		small, again := changed(t, l, 0, few), changed(t, l, 2, few)
		now := start
		p.take(t, now, one(small, 7), nil)
		for range 80 {
			now = now.Add(time.Duration(r.Int64N(int64(rate.Span() / 9))))
			charges := one(l, 1+r.Int64N(algo.MaxAmount>>(r.IntN(5)*8)))
			allowed, results := p.take(t, now, charges, nil)
			if !allowed || r.IntN(2) > 0 { // exactly what remains is allowed
				left := results[0].Machine.Remaining(results[0].State, now)
				p.take(t, now, one(l, left+1), nil)
				p.take(t, now, one(l, left), nil)
				continue
			}
			actual := r.Int64N(2 * charges[0].Cost)
			corrected, of := corrections(charges, results, []int64{actual})
			p.settle(t, now, corrected, of, 0)
			p.take(t, now.Add(-time.Second), []limiter.Charge{{Limit: l, Cost: 1 + r.Int64N(algo.MaxAmount), Force: true}}, nil)
		}
		p.take(t, now, one(again, 1), nil)
		p.inspect(t)
	}
}
