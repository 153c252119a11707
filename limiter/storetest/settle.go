package storetest

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testSettle settles reserves of 6 on two limits at other costs: less, more, far above the max debt, and
// less on one limit but more on the other. The settlement arrives in the charged window, in the next
// window, or when the subject is idle. Each settlement is repeated once.
func testSettle(t *testing.T, s Suite, rate algo.Rate) {
	for _, actual := range [][]int64{{0, 6}, {4, 1}, {9, 6}, {9, 2}, {1, 14}, {30, 5}, {25, 1 << 30}} {
		for _, apart := range []time.Duration{0, time.Second, time.Minute, 50 * time.Minute} {
			p := newPair(t, s)
			charges := []limiter.Charge{{Limit: Limit(t, "a", rate), Cost: 6}, {Limit: Limit(t, "b", rate), Cost: 6}}
			_, results := p.take(t, start, charges, nil)
			corrected, of := corrections(charges, results, actual)
			for range 2 {
				p.settle(t, start.Add(apart), corrected, of, apart)
				p.inspect(t)
			}
			for i := range charges {
				charges[i].Cost = 2
			}
			p.take(t, start.Add(apart).Add(30*time.Second), charges, nil)
		}
	}
}

// testSettleUnknown settles a subject that was reset, and a limit that newer rules changed. A cost above
// the reserve still counts.
func testSettleUnknown(t *testing.T, s Suite, rate algo.Rate) {
	for _, more := range []int64{3, 40} {
		p, l := newPair(t, s), Limit(t, "a", rate)
		charges := one(l, 6)
		_, results := p.take(t, start, charges, nil)
		p.reset(t)
		p.settle(t, start, []limiter.Charge{{Limit: l, Cost: more, Force: true}}, results, 0)
		p.inspect(t)

		next := changed(t, l, 2, algo.Rate{Algorithm: rate.Algorithm, Requests: 40, Window: time.Minute})
		p.take(t, start, one(next, 1), nil)
		p.settle(t, start, []limiter.Charge{{Limit: l, Cost: more, Force: true}}, results, 0)
		p.settle(t, start, charges, results, 0)
		p.settle(t, start, []limiter.Charge{{Limit: changed(t, l, 3, rate), Force: true}, {Limit: Limit(t, "b", rate), Cost: more, Force: true}}, make([]algo.Result, 2), 0)
		p.inspect(t)
		p.settle(t, start, []limiter.Charge{{Limit: changed(t, l, 3, rate), Cost: more, Force: true}}, results, 0)
		p.inspect(t)
	}
}

// testSettleAhead charges a state that a wrong clock has written far in the future. The store records the Skew of the
// state, and clamps the state after one horizon, as for other charges.
func testSettleAhead(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	_, results := p.take(t, start.Add(time.Hour), one(l, 6), nil)
	still := l.Machine().Horizon() + 5*time.Second
	for _, at := range []algo.Instant{start, start.Add(still - 1), start.Add(still)} {
		p.settle(t, at, []limiter.Charge{{Limit: l, Cost: 3, Force: true}}, results, 0)
		p.inspect(t)
	}
	p.take(t, start.Add(still), one(l, 1), nil)
}

// testConcurrentSettle settles concurrent requests of one subject. Every cost counts exactly once.
func testConcurrentSettle(t *testing.T, s Suite, rate algo.Rate) {
	rate.Requests, rate.Burst = 90, 0
	store, who := s.Open(t), subject()
	limits := []*limiter.Limit{Limit(t, "a", rate), Limit(t, "b", rate)}
	const callers = 12
	together(t, callers, func(int) {
		charges := []limiter.Charge{{Subject: who, Limit: limits[0], Cost: 3}, {Subject: who, Limit: limits[1], Cost: 3}}
		results := make([]algo.Result, 2)
		for {
			if taken, err := store.Take(ctx, start, who, charges, results); taken && err == nil {
				break
			}
		}
		charges, results = corrections(charges, results, []int64{5, 3})
		for {
			if _, err := store.Settle(ctx, start, who, charges, results, 0, limiter.Once{}); err == nil {
				break
			}
		}
	})
	results := read(t, store, start, who, limits...)
	for i, want := range []int64{5 * callers, 3 * callers} {
		if used := results[i].Machine.Used(results[i].State, start); used != want {
			t.Errorf("limit %s: got a count of %d, want %d", limits[i].Name, used, want)
		}
	}
}
