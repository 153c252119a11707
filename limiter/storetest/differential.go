package storetest

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testDifferential runs random scripts on the store and the model. A script has random costs, and
// instants that jump forward and back. It makes debts, changes limits, settles early, late and
// repeatedly, and passes missing, correct or stale hints. Every state must be the same, bit for bit.
func testDifferential(t *testing.T, s Suite) {
	store := s.Open(t)
	limits := make([][]*limiter.Limit, len(rates)+1)
	for i := range limits {
		first := Limit(t, string('a'+rune(i)), rates[i%len(rates)])
		limits[i] = append(limits[i], first,
			changed(t, first, 2, algo.Rate{Algorithm: rates[(i+1)%len(rates)].Algorithm, Requests: 5, Window: 10 * time.Second}),
			changed(t, first, 3, longer(first.Rate)))
	}
	for _, rate := range []algo.Rate{{Algorithm: algo.SlidingWindow}, {Algorithm: algo.TokenBucket, Requests: 20}} {
		var tiers [3][]*limiter.Limit
		for version := range int64(3) {
			rate.Window = time.Duration(40+20*(version/2)) * time.Second
			for tier, l := range inTiers(rate, version+1, 4, 7, 10-2*version) {
				tiers[tier] = append(tiers[tier], l)
			}
		}
		limits = append(limits, slices.Concat(tiers[:]...))
	}
	rapid.Check(t, func(t *rapid.T) {
		p := newPairOf(store, s)
		now, version := start, 0
		if rapid.Bool().Draw(t, "midnight") {
			day := limits[len(rates)-1][0].Machine().(*algo.Window)
			now = day.Start(day.Index(start) + 1).Add(-time.Minute)
		}
		h := history{pair: p, limits: limits}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(step(t))
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				version = rapid.IntRange(0, 2).Draw(t, "version")
			}
			if len(h.past) > 0 && rapid.IntRange(0, 4).Draw(t, "refund") == 0 {
				h.settle(t, now)
				continue
			}
			if !h.take(t, now, version) {
				continue
			}
			switch rapid.IntRange(0, 60).Draw(t, "admin") {
			case 0:
				p.reset(t)
			case 1:
				p.inspect(t)
			}
		}
		p.inspect(t)
	})
}

// history is what one random script has charged.
type history struct {
	pair   *pair
	limits [][]*limiter.Limit // by limit, and by tier and version
	past   []admission
}

// admission has the charges of an allowed request, which a script can settle.
type admission struct {
	charges []limiter.Charge
	results []algo.Result
}

// take charges some limits. It returns false if it drew none.
func (h *history) take(t *rapid.T, now algo.Instant, version int) bool {
	var charges []limiter.Charge
	var hint []algo.Result
	for _, versions := range h.limits {
		if rapid.IntRange(0, len(h.limits)).Draw(t, "charged") < 3 {
			of := version + 3*rapid.IntRange(0, len(versions)/3-1).Draw(t, "tier")
			c := limiter.Charge{Limit: versions[of], Cost: rapid.Int64Range(0, 4).Draw(t, "cost")}
			if rapid.IntRange(0, 15).Draw(t, "spend") == 0 {
				c.Force, c.Cost = true, rapid.Int64Range(0, 25).Draw(t, "spent")
			}
			charges = append(charges, c)
			hint = append(hint, h.hint(t, c.Limit))
		}
	}
	if len(charges) == 0 {
		return false
	}
	spends := slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.Force })
	if allowed, results := h.pair.take(t, now, charges, hint); allowed && !spends {
		k := admission{charges: charges, results: results}
		h.past = append(h.past, k)
	}
	return true
}

// settle settles an earlier request.
func (h *history) settle(t *rapid.T, now algo.Instant) {
	i := rapid.IntRange(0, len(h.past)-1).Draw(t, "which")
	late := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "elapsed"))
	k := h.past[i]
	charges, results := corrections(k.charges, k.results, rapid.SliceOfN(rapid.Int64Range(0, 30), 1, 3).Draw(t, "actual"))
	if rapid.Bool().Draw(t, "whole") {
		charges, results = corrections(k.charges, k.results, []int64{0})
	}
	if len(charges) > 0 {
		h.pair.settle(t, now, charges, results, late)
	}
	h.past = slices.Delete(h.past, i, i+1)
}

// hint draws a possible entry of a denial cache for the limit: no entry, or any earlier state, also of other rules or another tier.
func (h *history) hint(t *rapid.T, limit *limiter.Limit) algo.Result {
	if len(h.past) == 0 || rapid.Bool().Draw(t, "cold") {
		return algo.Result{}
	}
	k := h.past[rapid.IntRange(0, len(h.past)-1).Draw(t, "remembered")]
	for i, c := range k.charges {
		if c.Limit.ID == limit.ID {
			return k.results[i]
		}
	}
	return algo.Result{}
}

// longer returns a changed rate of the same algorithm: 23 requests in a longer calendar period, or in 13 s.
func longer(r algo.Rate) algo.Rate {
	if r.Calendar.Period != "" {
		return algo.Rate{Requests: 23, Calendar: algo.Calendar{Period: algo.Month, Zone: r.Calendar.Zone, Anchor: "31"}}
	}
	return algo.Rate{Algorithm: r.Algorithm, Requests: 23, Window: 13 * time.Second}
}

// step draws the time between two instants. A script lasts less than an hour, because a store can remove
// a limit that was idle for an hour.
func step(t *rapid.T) time.Duration {
	longest := rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Second, 20 * time.Second, 80 * time.Second}).Draw(t, "longest")
	return time.Duration(rapid.Int64Range(-int64(longest)/3, int64(longest)).Draw(t, "step"))
}
