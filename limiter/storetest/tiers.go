package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// inTiers returns the thresholds of several tiers on one count: the requests of a window, or the bursts of a bucket.
func inTiers(rate algo.Rate, version int64, capacities ...int64) (limits []*limiter.Limit) {
	rate.Of = slices.Max(capacities)
	for _, n := range capacities {
		if rate.Algorithm.HasBurst() {
			rate.Burst = n
		} else {
			rate.Requests = n
		}
		limits = append(limits, Must(limiter.NewLimit(limiter.Limit{Name: "tier", ID: limiter.NewID("tier", string(rate.Algorithm)), Rate: rate,
			Version: version})))
	}
	return limits
}

// inParts returns 60 % and 100 % of a limit.
func inParts(rate algo.Rate, version, most int64) []*limiter.Limit {
	limits := inTiers(rate, version, max(1, most*60/100), most)
	for i, percent := range []int64{60, 100} {
		part := *limits[i]
		part.Rate.Percent = percent
		limits[i] = Must(limiter.NewLimit(part))
	}
	return limits
}

// Each tier is a threshold on one count. A change of tier converts nothing, and refunds find the count. If newer rules
// decide, no tier exceeds its own threshold or theirs.
func testTiers(t *testing.T, s Suite) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.FixedWindow, Window: time.Hour},
		{Algorithm: algo.SlidingWindow, Window: time.Hour},
		{Algorithm: algo.TokenBucket, Requests: 40, Window: time.Hour},
		{Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin"}},
	} {
		t.Run(nameOf(rate), func(t *testing.T) {
			p, now := newPair(t, s), start.Add(time.Hour)
			limits, newer := inTiers(rate, 1, 50, 40_000), inTiers(rate, 2, 60, 50, 45)
			free, paid := limits[0], limits[1]
			var last []algo.Result
			used := func(step string, l *limiter.Limit, cost, want int64) []algo.Result {
				t.Helper()
				allowed, results := p.take(t, now, one(l, cost), nil)
				last = results
				if got := results[0].Machine.Used(results[0].State, now); !allowed || got != want {
					t.Fatalf("%s: got allowed %t and %d used, want true and %d", step, allowed, got, want)
				}
				return results
			}
			refused := func(step string, l *limiter.Limit) {
				t.Helper()
				p.take(t, now, one(l, 1), last) // a state of another tier changes nothing
				allowed, results := p.take(t, now, one(l, 1), nil)
				if wait := results[0].RetryAfter(now, 1); allowed || results[0].Remaining(now) != 0 || wait == algo.Never {
					t.Fatalf("%s: got allowed %t, %d remaining and %s to wait, want a refusal for some time", step, allowed, results[0].Remaining(now),
						wait)
				}
			}
			first := used("free", free, 45, 45)
			used("paid", paid, 5, 50)
			refused("free, at its threshold", free)
			used("paid again", paid, 1, 51)
			if held := p.inspect(t); len(held) != 1 || held[0].Machine.Capacity() != 40_000 {
				t.Fatalf("got %+v, want one state, of the largest threshold", held)
			}
			if rate.Algorithm != algo.TokenBucket { // a refund of a bucket that was charged since is not exact
				p.refund(t, one(free, 3), first, 0)
				used("free, after its refund", free, 2, 50)
			}
			p.settle(t, now, []limiter.Charge{{Limit: free, Cost: 200, Force: true}}, make([]algo.Result, 1), 0)
			refused("free, after a forced charge above its threshold", free)
			used("paid, after the forced charge", paid, 1, p.inspect(t)[0].Machine.Used(p.inspect(t)[0].State, now)+1)
			refused("newer rules convert the count", newer[0])
			refused("paid, whose threshold is above that of newer rules", paid)

			p = newPair(t, s)
			used("newer rules", newer[1], 47, 47)
			refused("another tier of them", newer[2])
			used("older rules, within both thresholds", free, 3, 50)
			refused("older rules, at their threshold", free)
			used("older rules, above the thresholds of free", paid, 1, 51)
			refused("older rules, above their threshold", free)
			used("older rules, up to the largest threshold of the newer ones", paid, 9, 60)
			refused("older rules, at the largest threshold of the newer ones", paid)

			// Parts of a limit (Rate.Percent) are parts of the capacity that newer rules set, whether it is smaller or larger, at
			// least 1.
			for most, part := range map[int64]int64{1: 1, 50: 30, 45_000: 27_000} {
				p = newPair(t, s)
				older, newer := inParts(rate, 1, 300), inParts(rate, 2, most)
				first := used("newer rules", newer[1], 1, 1)
				p.refund(t, one(newer[1], 1), first, 0)
				used("older rules, up to the part", older[0], part, part)
				refused("older rules, at the part", older[0])
				refused("newer rules, at the part", newer[0])
				used("older rules, the whole limit", older[1], most-part, most)
				refused("older rules, at the whole limit", older[1])
			}
		})
	}
}
