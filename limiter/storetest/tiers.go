package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// inTiers returns one limit in several tiers, with the requests of each. If one is true, they keep one count.
func inTiers(rate algo.Rate, version int64, one bool, requests ...int64) (limits []*limiter.Limit) {
	for i, n := range requests {
		l := limiter.Limit{Name: "tier", Rate: rate, Version: version}
		l.Rate.Requests = n
		for j := range requests {
			switch id := limiter.NewID("tier", strconv.Itoa(j)); {
			case i == j:
				l.ID = id
			case one:
				l.Tiers = append(l.Tiers, id)
			}
		}
		limits = append(limits, Must(limiter.NewLimit(l)))
	}
	return limits
}

// A caller that changes tier keeps its usage. Counts from before the limits kept one count are added, and no count is added
// twice.
func testTiers(t *testing.T, s Suite) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.FixedWindow, Window: time.Hour},
		{Algorithm: algo.SlidingWindow, Window: time.Hour},
		{Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin"}},
	} {
		t.Run(nameOf(rate), func(t *testing.T) {
			p, now := newPair(t, s), start.Add(time.Hour)
			before, limits := inTiers(rate, 1, false, 50, 70_000), inTiers(rate, 2, true, 50, 70_000)
			free, paid := limits[0], limits[1]
			used := func(step string, l *limiter.Limit, cost, want int64) {
				t.Helper()
				allowed, results := p.take(t, now, one(l, cost), nil)
				if got := results[0].Machine.Used(results[0].State, now); !allowed || got != want {
					t.Fatalf("%s: got allowed %t and %d used, want true and %d", step, allowed, got, want)
				}
			}
			used("free, a count for each tier", before[0], 45, 45)
			used("paid, a count for each tier", before[1], 1, 1)
			used("free, a look at one count", free, 0, 46)
			used("paid, one count", paid, 4, 50)
			if entries := p.inspect(t); len(entries) != 1 || entries[0].ID != paid.ID {
				t.Fatalf("after the counts became one: got %+v, want only that of paid", entries)
			}
			if allowed, _ := p.take(t, now, one(free, 1), nil); allowed {
				t.Fatal("free, the count is used up: got allowed, want a refusal")
			}
			used("paid again", paid, 1, 51)
			// A process with the rules from before charges the count of a tier. The next charge adds it.
			used("free, a count for each tier again", before[0], 2, 2)
			used("paid, with the added count", paid, 1, 54)
			p.take(t, now, one(before[0], 1), nil)
			p.settle(t, now, []limiter.Charge{{Limit: paid, Cost: 1, Force: true}}, make([]algo.Result, 1), 0)
			p.inspect(t)
			charges := []limiter.Charge{{Limit: free, Cost: 3, Force: true}}
			p.settle(t, now, charges, make([]algo.Result, 1), 0)
			used("paid, after a forced charge on free", paid, 70_000-59, 70_000)
			// Refunds change only the limit that was charged.
			p.refund(t, one(free, 2), []algo.Result{{Machine: free.Machine(), State: algo.State{Window: p.inspect(t)[0].State.Window, Count: 2}}}, 0)
			if allowed, _ := p.take(t, now, one(paid, 1), nil); allowed {
				t.Fatal("paid, after a refund of the other tier: got allowed, want a refusal")
			}
		})
	}
}
