package limiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// inTiers returns charges of cost 1 on one limit in two tiers, which keep one count in the hour.
func inTiers(t *testing.T, free, paid int64) (charges [2]limiter.Charge) {
	t.Helper()
	for i, requests := range []int64{free, paid} {
		charges[i] = limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
			Name: "quota", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Of: paid, Window: time.Hour}})}
	}
	return charges
}

// Only a window or a bucket can be a threshold on a larger count, and only without Spread.
func TestNewLimit_tiers(t *testing.T) {
	for _, l := range []limiter.Limit{
		{Rate: algo.Rate{Algorithm: algo.SlidingLog}},
		{Count: limiter.Count{Of: limiter.CountConcurrent}},
		{Spread: limiter.Spread{Lease: 2}},
		{Rate: algo.Rate{Of: 9}},
		{Rate: algo.Rate{Algorithm: algo.TokenBucket, Burst: 21}},
		{Rate: algo.Rate{Algorithm: algo.FixedWindow, Regions: algo.Regions{Of: 2}}},
	} {
		l.Name, l.Rate.Requests, l.Rate.Window = "a", 10, time.Minute
		if l.Rate.Of == 0 {
			l.Rate.Of = 20
		}
		_, err := limiter.NewLimit(l)
		if of, ok := errors.AsType[*algo.FieldError](err); !ok || of.Field != "of" {
			t.Errorf("%+v: got error %v, want one of the field of", l, err)
		}
	}
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Of: 9, Window: time.Minute}})
	if _, counts := l.Machine().(*algo.Window); !counts {
		t.Errorf("small sliding window: got %s, want one that counts", l.Fingerprint())
	}
}

// A request charges one of the limits that keep one count. Inspect shows the count in each tier. The denial cache judges
// each tier by its own threshold, and the back-off of one tier does not refuse another.
func TestLimiter_tiers(t *testing.T) {
	store := newRemote()
	l, c := over(store, 0), inTiers(t, 50, 200)
	if _, err := l.Take(ctx, noon, c[:]); !errors.Is(err, limiter.ErrInvalidCharge) {
		t.Errorf("both tiers in one request: got error %v, want %v", err, limiter.ErrInvalidCharge)
	}
	free := c[0]
	free.Cost = 45
	if d := takeAt(t, l, noon, free); !d.Allowed || d.Remaining != 5 {
		t.Fatalf("free: got %+v, want 5 remaining", d)
	}
	usages, err := l.Inspect(ctx, noon, c[:])
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{5, 155} {
		if s := usages[i]; !s.Known || s.Remaining != want {
			t.Errorf("tier %d: got %+v, want %d remaining", i, s, want)
		}
	}
	for range 10 {
		takeAt(t, l, noon, free)
	}
	calls := store.takes.Load()
	if d := takeAt(t, l, noon, c[1]); !d.Allowed || d.Remaining != 154 || store.takes.Load() != calls+1 {
		t.Errorf("after the upgrade: got %+v and %d calls, want 154 remaining and one call", d, store.takes.Load()-calls)
	}
	if d := takeAt(t, l, noon, free); d.Allowed || store.takes.Load() != calls+1 {
		t.Errorf("free, above its threshold: got %+v and %d calls, want a refusal by the cache", d, store.takes.Load()-calls)
	}
}

// Concurrent requests of one process with different tiers share calls. Each is admitted by its own threshold, in its turn.
func TestGroup_tiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, c := over(store, 0), inTiers(t, 5, 12)
		admitted := [2]int{}
		for i, d := range oneByOne(40, func(i int) limiter.Decision { return takeAt(t, l, noon, c[i%2]) }) {
			if d.Allowed {
				admitted[i%2]++
			}
			if part := []int64{5, 12}[i%2]; d.Capacity != part || d.Remaining >= part {
				t.Errorf("request %d: got %+v, want the fields of a limit of %d", i, d, part)
			}
		}
		if admitted != [2]int{3, 9} {
			t.Errorf("got %d admitted of free and paid, want 3 and 9: the sixth request finds 5 used", admitted)
		}
		if len(store.costs) > 5 {
			t.Errorf("got %d calls, want shared ones", len(store.costs))
		}
	})
}

// inParts returns charges of cost 1 on 60 % and 100 % of a limit.
func inParts(t *testing.T, version, of int64) (charges [2]limiter.Charge) {
	t.Helper()
	for i, percent := range []int64{60, 100} {
		charges[i] = limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "quota", Version: version, Rate: algo.Rate{
			Algorithm: algo.FixedWindow, Requests: of * percent / 100, Of: of, Percent: percent, Window: time.Hour}})}
	}
	return charges
}

// Another process uses the room that a group knew, maybe by newer rules. The call for a request of each tier then admits nobody
// above its own threshold, and the group finds who still fits. Newer rules that the group knows cost no further call.
func TestGroup_tiersRaced(t *testing.T) {
	older, newer, numbers := inParts(t, 1, 20), inParts(t, 2, 10), inTiers(t, 5, 12)
	for _, c := range []struct {
		tiers       [2]limiter.Charge
		order       []int
		other       limiter.Charge
		at, used    int // the call before which the other process charges, and its cost
		free, calls int // requests of free that are admitted; calls, if they are known
	}{
		{numbers, []int{1, 1, 0}, numbers[1], 2, 8, 0, 0}, {numbers, []int{1, 0, 1}, numbers[1], 2, 8, 0, 0},
		{older, []int{1, 0, 1}, newer[1], 2, 7, 0, 0}, {older, []int{1, 0, 1}, newer[1], 1, 4, 1, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newPaced()
			l, got := over(store, 0), [2]int{}
			c.other.Cost = int64(c.used)
			store.answer = func(call int, _ context.Context) error {
				if call == c.at {
					takeAt(t, over(store.remote, 0), noon, c.other)
				}
				return nil
			}
			for i, d := range oneByOne(3, func(i int) limiter.Decision { return takeAt(t, l, noon, c.tiers[c.order[i]]) }) {
				if d.Allowed {
					got[c.order[i]]++
				}
			}
			if got != [2]int{c.free, 2} || c.calls > 0 && len(store.costs) != c.calls {
				t.Errorf("%+v: got %d admitted of free and paid, and calls with the costs %v", c, got, store.costs)
			}
		})
	}
}

// A group of older rules knows a state of newer ones, and perhaps its call finds still newer ones. A tier may use its part of
// those that decide: no more, and no less.
func TestGroup_parts(t *testing.T) {
	part := func(version, most, percent int64) limiter.Charge {
		return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "quota", Version: version, Rate: algo.Rate{
			Algorithm: algo.FixedWindow, Requests: most * percent / 100, Of: most, Percent: percent, Window: time.Hour}})}
	}
	for name, c := range map[string]struct {
		most        [3]int64 // of the versions; 0 for none
		sent, admit int
		whole       func(i int) bool // the requests that may use the whole limit; nil for none
	}{
		"more": {[3]int64{20, 100, 0}, 60, 49, nil}, "less": {[3]int64{100, 80, 50}, 31, 23, nil},
		"mixed, more": {[3]int64{20, 100, 0}, 60, 60, func(i int) bool { return i >= 48 }},
		"mixed, less": {[3]int64{100, 80, 50}, 40, 32, func(i int) bool { return i%2 == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newPaced()
				l := over(store, 0)
				takeAt(t, over(store.remote, 0), noon, part(2, c.most[1], 100))
				store.answer = func(call int, _ context.Context) error {
					if call == 2 && c.most[2] > 0 {
						takeAt(t, over(store.remote, 0), noon, part(3, c.most[2], 100))
					}
					return nil
				}
				admitted, free, whole := 0, part(1, c.most[0], 50), part(1, c.most[0], 100)
				for _, d := range oneByOne(c.sent, func(i int) limiter.Decision {
					if c.whole != nil && c.whole(i) {
						return takeAt(t, l, noon, whole)
					}
					return takeAt(t, l, noon, free)
				}) {
					if d.Allowed {
						admitted++
					}
				}
				if admitted != c.admit || admitted == c.sent && len(store.costs) != 2 {
					t.Errorf("got %d admitted by %d calls, want %d, all of them by the same call after the first", admitted, len(store.costs), c.admit)
				}
			})
		})
	}
}

// In an outage, a caller that changes tier keeps what the process has seen and admitted.
func TestOutage_tiers(t *testing.T) {
	store := newRemote()
	l, c := over(store, 0), inTiers(t, 50, 200)
	first := c[0]
	first.Cost = 30
	takeAt(t, l, noon, first)
	store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	upgraded := c[1]
	for _, step := range []struct {
		charge  limiter.Charge
		cost    int64
		allowed bool
	}{{upgraded, 171, false}, {first, 15, true}, {upgraded, 156, false}, {upgraded, 155, true}, {upgraded, 1, false}} {
		step.charge.Cost = step.cost
		if takeAt(t, l, noon, step.charge).Allowed != step.allowed {
			t.Errorf("limit of %d, cost %d: got allowed %t, want %t", step.charge.Limit.Rate.Requests, step.cost, !step.allowed, step.allowed)
		}
	}
	if takeAt(t, l, noon, c[0]).Allowed {
		t.Error("back in the smaller tier: got allowed, want refused")
	}
}

// Two environments use two tiers of one caller at the same time. A limit of failures keeps no reserve of their successful
// requests, also if the settlement comes after a request in the other tier.
func TestReceipt_tiers(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.FixedWindow, Window: time.Hour},
		{Algorithm: algo.FixedWindow, Calendar: algo.Calendar{Period: algo.Month}},
		{Algorithm: algo.TokenBucket, Window: time.Hour},
	} {
		store := newRemote()
		environments := []*limiter.Limiter{over(store, 0), over(store, 0)}
		refused := 0
		var before *limiter.Receipt
		for i := range 400 {
			tier := rate
			tier.Requests, tier.Of = int64(20*(1+i%2)), 40
			if rate.Algorithm == algo.TokenBucket {
				tier.Requests, tier.Burst = 40, tier.Requests
			}
			c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "quota", Rate: tier,
				Count: limiter.Count{Of: limiter.CountFailures}})}
			at := noon.Add(time.Duration(i) * time.Second)
			d, receipt, err := environments[i%2].TakeRefundable(ctx, at, []limiter.Charge{c})
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				refused++
			}
			before.Settle(ctx, at, func(limiter.Charge) int64 { return 0 })
			before = receipt
		}
		if refused > 0 {
			t.Errorf("%+v: got %d of 400 successful requests refused by a limit of failures, want none", rate, refused)
		}
	}
}
