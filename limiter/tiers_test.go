package limiter_test

import (
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
	ids := []limiter.ID{limiter.NewID("free"), limiter.NewID("paid")}
	for i, requests := range []int64{free, paid} {
		charges[i] = limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
			Name: "quota", ID: ids[i], Tiers: ids[1-i : 2-i], Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: requests, Window: time.Hour}})}
	}
	return charges
}

// Only a window can keep one count across tiers, and only without Spread.
func TestNewLimit_tiers(t *testing.T) {
	others := []limiter.ID{limiter.NewID("other")}
	for _, l := range []limiter.Limit{
		{Rate: algo.Rate{Algorithm: algo.TokenBucket}},
		{Rate: algo.Rate{Algorithm: algo.LeakyBucket}},
		{Rate: algo.Rate{Algorithm: algo.SlidingLog}},
		{Count: limiter.Count{Of: limiter.CountConcurrent}},
		{Spread: limiter.Spread{Lease: 2}},
		{ID: others[0]},
		{Tiers: make([]limiter.ID, limiter.MaxCharges)},
	} {
		l.Name, l.Rate.Requests, l.Rate.Window = "a", 10, time.Minute
		if l.Tiers == nil {
			l.Tiers = others
		}
		_, err := limiter.NewLimit(l)
		if of, ok := errors.AsType[*algo.FieldError](err); !ok || of.Field != "across_tiers" {
			t.Errorf("%+v: got error %v, want one of across_tiers", l, err)
		}
	}
	l := limit(t, limiter.Limit{Name: "a", Tiers: others, Rate: algo.Rate{Requests: 5, Window: time.Minute}})
	if _, counts := l.Machine().(*algo.Window); !counts {
		t.Errorf("small sliding window: got %s, want one that counts", l.Fingerprint())
	}
}

// A request charges one of the limits that keep one count. Inspect shows the count in each tier.
func TestLimiter_tiers(t *testing.T) {
	l, c := over(newRemote(), 0), inTiers(t, 50, 200)
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
		if s := usages[i]; !s.Known || s.Remaining != want || s.InOtherTier != (i == 1) {
			t.Errorf("tier %d: got %+v, want %d remaining, counted in tier 0", i, s, want)
		}
	}
	if d := takeAt(t, l, noon, c[1]); !d.Allowed || d.Remaining != 154 {
		t.Errorf("after the upgrade: got %+v, want 154 remaining", d)
	}
}

// Concurrent requests of one process with different views of the tier share no call, and admit the larger limit.
func TestGroup_tiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := over(newPaced(), 0), inTiers(t, 5, 12)
		admitted := 0
		for _, d := range oneByOne(40, func(i int) limiter.Decision { return takeAt(t, l, noon, c[i%2]) }) {
			if d.Allowed {
				admitted++
			}
		}
		if admitted != 12 {
			t.Errorf("got %d admitted, want 12", admitted)
		}
	})
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

// A fast clock wrote the count of another tier. The store records its Skew, as for a count of the tier itself.
func TestHeld_Current_tiersAhead(t *testing.T) {
	c := inTiers(t, 50, 200)
	m, now := c[0].Limit.Machine(), algo.InstantOf(noon)
	ahead, _ := m.Take(algo.State{}, now.Add(10*time.Hour), 3)
	if !m.Ahead(ahead, now) {
		t.Fatalf("state %v: got honest, want ahead", ahead)
	}
	got, write := limiter.Held{}.Current(c[1].Limit, now, limiter.Held{Result: algo.Result{Machine: m, State: ahead}})
	if !write || got.Skew == (algo.Skew{}) {
		t.Errorf("got %+v, write %t, want a state that is written with its Skew", got, write)
	}
}
