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
		p.settle(t, start, []limiter.Charge{{Limit: changed(t, l, 3, rate), Force: true}, {Limit: Limit(t, "b", rate), Cost: more, Force: true}},
			make([]algo.Result, 2), 0)
		p.inspect(t)
		p.settle(t, start, []limiter.Charge{{Limit: changed(t, l, 3, rate), Cost: more, Force: true}}, results, 0)
		p.inspect(t)
	}
}
