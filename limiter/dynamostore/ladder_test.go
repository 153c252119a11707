package dynamostore_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// An environment without a cached state of the caller needs one call for a request at the top of each
// rung of the ladder. If the current window is empty, one call is enough for every previous count that
// leaves room for the request.
func TestStore_ladder(t *testing.T) {
	store, m := metered(t)
	ctx := context.Background()
	w := storetest.Limit(t, "a", algo.Rate{Requests: 800, Window: time.Minute})
	machine := w.Machine().(*algo.Window)
	now := algo.InstantOf(noon) // noon is 20 s after the start of a window of 1 min
	index := machine.Index(now)
	take := func(who limiter.Subject, at algo.Instant, cost, calls int64) algo.Result {
		t.Helper()
		before := m.calls.Load()
		results := admit(t, store, at, limiter.Charge{Subject: who, Limit: w, Cost: cost})
		if n := m.calls.Load() - before; calls > 0 && n != calls {
			t.Errorf("take of cost %d, to %+v: got %d calls, want %d", cost, results[0].State, n, calls)
		}
		return results[0]
	}
	for rung := range int64(9) {
		previous := 100 * rung
		for _, left := range []int64{0, 1} { // number of requests that the limit can still admit after the charge
			who, cost := caller(), int64(7)
			if previous > 0 {
				take(who, now.Add(-time.Minute), previous, 0)
			}
			first := machine.Room(index, now, previous, cost) - left
			take(who, now, first, 0)
			take(who, now, cost, 1)
		}
		// A refund leaves a count of zero in the item. The ladder must accept it like an absent count.
		who := caller()
		if previous > 0 {
			take(who, now.Add(-time.Minute), previous, 0)
		}
		r := take(who, now, 5, 0)
		if _, err := store.Settle(ctx, 0, who, []limiter.Charge{{Subject: who, Limit: w, Cost: 5}}, []algo.Result{r}, 0); err != nil {
			t.Fatal(err)
		}
		take(who, now, machine.Room(index, now, previous, 0), 1)
	}
	for _, cost := range []int64{300, 500, 799} {
		who := caller()
		take(who, now.Add(-time.Minute), machine.PreviousRoom(index, now, cost), 0)
		take(who, now, cost, 1)
	}
}

// An environment without a cached state of the caller refuses a request above the limit, at each rung
// of the ladder. This applies to the current count and to the previous count.
func TestStore_ladder_refuses(t *testing.T) {
	store, _ := metered(t)
	w := storetest.Limit(t, "a", algo.Rate{Requests: 800, Window: time.Minute})
	machine := w.Machine().(*algo.Window)
	now := algo.InstantOf(noon.Truncate(time.Minute)) // at the start of a window, the previous window has its full weight
	index := machine.Index(now)
	take := func(who limiter.Subject, at algo.Instant, cost int64) bool {
		t.Helper()
		allowed, _ := take(t, store, at, limiter.Charge{Subject: who, Limit: w, Cost: cost})
		return allowed
	}
	for rung := range int64(9) {
		for _, above := range []int64{0, 1, 2, 5} { // difference between the previous count and the bound of the rung
			previous, cost := 100*rung+above, int64(7)
			if previous > 800-cost {
				continue
			}
			who := caller()
			if previous > 0 && !take(who, now.Add(-1), previous) {
				t.Fatal("got a refusal, want an allowed request")
			}
			// This charge leaves room for cost-1.
			if !take(who, now, machine.Room(index, now, previous, 0)-cost+1) {
				t.Fatal("got a refusal, want an allowed request")
			}
			if take(who, now, cost) {
				t.Errorf("previous count %d: got one request more than the limit, want a refusal", previous)
			}
		}
	}
}

// A Take of cost 0, or of a cost above the capacity, only reads the item, with a consistent read. A Take of the whole
// capacity writes.
func TestStore_readOnly(t *testing.T) {
	store, m := metered(t)
	for _, algorithm := range algorithms {
		who := caller()
		charge := limiter.Charge{Limit: storetest.Limit(t, string(algorithm), algo.Rate{Algorithm: algorithm, Requests: 5, Window: time.Minute})}
		for _, c := range []struct {
			cost, updates int64
			spend         bool
		}{{0, 0, false}, {5, 1, false}, {0, 0, false}, {6, 0, false}, {10, 1, true}} {
			charge.Force = c.spend
			if c.spend { // a forced charge of 10 puts a new caller at its max debt
				who = caller()
			}
			charge.Subject, charge.Cost = who, c.cost
			before, updates := m.calls.Load(), m.updates
			take(t, store, algo.InstantOf(noon), charge)
			if calls, updates := m.calls.Load()-before, int64(m.updates-updates); updates != c.updates || calls != 1 {
				t.Errorf("%s: got %d updates in %d calls for cost %d, want %d updates in one call", algorithm, updates, calls, c.cost, c.updates)
			}
		}
	}
	if n := m.stale.Load(); n > 0 {
		t.Errorf("got %d reads that may return an old item, want none", n)
	}
}

// A process without a state of the caller decides by one write if the oldest entries of a small log have expired. An
// entry of a process whose clock was behind counts at the newer instant before it in the list.
func TestStore_agedRoom(t *testing.T) {
	type step struct {
		at      time.Duration
		allowed bool
		updates int
	}
	limit := storetest.Limit(t, "a", algo.Rate{Requests: 2, Window: time.Minute})
	for name, steps := range map[string][]step{
		"expired": {{0, true, 1}, {time.Second, true, 1}, {2 * time.Second, false, 1}, {70 * time.Second, true, 1}, {71 * time.Second, true, 1},
			{72 * time.Second, false, 1}},
		"together": {{0, true, 1}, {60 * time.Second, true, 1}, {119 * time.Second, true, 1}, {120 * time.Second, true, 2}},
		"clocks":   {{100 * time.Second, true, 1}, {98 * time.Second, true, 2}, {159 * time.Second, false, 1}, {160 * time.Second, true, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			api, who := &racing{API: &memtable.Table{}}, caller()
			store := open(api)
			for _, s := range steps {
				api.updates = 0
				allowed, err := store.Take(t.Context(), algo.InstantOf(noon.Add(s.at)), who, []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}},
					make([]algo.Result, 1))
				if err != nil || allowed != s.allowed || api.updates != s.updates {
					t.Fatalf("after %s: got allowed %t and %d updates, error %v; want %t and %d", s.at, allowed, api.updates, err, s.allowed, s.updates)
				}
			}
		})
	}
}
