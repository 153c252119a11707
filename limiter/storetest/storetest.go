package storetest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Suite is a store under test.
type Suite struct {
	// Open returns a store. The suite may call it several times. Stores on the same server share
	// their state.
	Open func(t *testing.T) limiter.Store
	// Margin is the time that the store adds to the elapsed time of a refund.
	Margin time.Duration
	// Releases reports whether a settlement that fails with limiter.ErrContended may have released its slots.
	Releases bool
}

var ctx = context.Background()

// rates has one rate for each algorithm, and one for a calendar, with a capacity of 10. A sliding window of this capacity
// without Counts is a sliding log.
var rates = []algo.Rate{
	{Algorithm: algo.TokenBucket, Requests: 7, Window: time.Minute, Burst: 10},
	{Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Minute, Counts: true},
	{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute},
	{Algorithm: algo.LeakyBucket, Requests: 7, Window: time.Minute, Burst: 10},
	{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute},
	{Algorithm: algo.Concurrent, Requests: 10, Window: time.Minute},
	{Algorithm: algo.FixedWindow, Requests: 10, Calendar: algo.Calendar{Period: algo.Day, Zone: "America/New_York"}},
}

func nameOf(r algo.Rate) string { return cmp.Or(string(r.Calendar.Period), string(r.Algorithm)) }

// Run runs the whole suite on the store of s. Each property and algorithm is a subtest. TestLimiter tests a Limiter on each
// store of Weir.
func Run(t *testing.T, s Suite) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Suite, algo.Rate)
	}{
		{"Patience", testPatience},
		{"CostOverCapacity", testCostOverCapacity},
		{"FarAhead", testFarAhead},
		{"FarAheadCharged", testFarAheadCharged},
		{"SameVersion", testSameVersion},
		{"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, rate := range rates {
				t.Run(nameOf(rate), func(t *testing.T) { c.test(t, s, rate) })
			}
		})
	}
	t.Run("Amounts", func(t *testing.T) { testAmounts(t, s) })
	t.Run("Admin", func(t *testing.T) { testAdmin(t, s) })
	t.Run("MostLimits", func(t *testing.T) { testMostLimits(t, s) })
	t.Run("Cancelled", func(t *testing.T) { testCancelled(t, s) })
	t.Run("Tiers", func(t *testing.T) { testTiers(t, s) })
	t.Run("Shares", func(t *testing.T) { testShares(t, s) })
	t.Run("Linearizable", func(t *testing.T) { testLinearizable(t, s) })
	t.Run("Differential", func(t *testing.T) { testDifferential(t, s) })
}

// A caller is allowed after RetryAfter, and refused one nanosecond earlier.
func testPatience(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	now := start
	for i, cost := range []int64{10, 3, 1, 7, 10, 2, 2} {
		allowed, results := p.take(t, now, one(l, cost), nil)
		if allowed {
			continue
		}
		wait := results[0].Machine.RetryAfter(results[0].State, now, cost)
		if wait <= 0 {
			t.Fatalf("take %d: got a refusal with RetryAfter %s, want a positive wait", i, wait)
		}
		if early, _ := p.take(t, now.Add(wait-1), one(l, cost), nil); early {
			t.Fatalf("take %d, 1 ns before RetryAfter %s: got allowed, want refused", i, wait)
		}
		now = now.Add(wait)
		if passed, _ := p.take(t, now, one(l, cost), nil); !passed {
			t.Fatalf("take %d, after RetryAfter %s: got refused, want allowed", i, wait)
		}
	}
}

// A cost above the capacity is always refused, and changes no state.
func testCostOverCapacity(t *testing.T, s Suite, rate algo.Rate) {
	p, l := newPair(t, s), Limit(t, "a", rate)
	for _, cost := range []int64{11, algo.MaxRequests, 1 << 62} {
		allowed, results := p.take(t, start, one(l, cost), nil)
		if wait := results[0].Machine.RetryAfter(results[0].State, start, cost); allowed || wait != algo.Never {
			t.Fatalf("cost %d of capacity 10: got allowed %t, RetryAfter %s, want a refusal without a possible wait", cost, allowed, wait)
		}
	}
	if allowed, _ := p.take(t, start, one(l, 10), nil); !allowed {
		t.Fatal("cost of the whole capacity: got refused, want allowed")
	}
	p.take(t, start, one(l, 11), nil)
}

// Other parameters of the same version do not decide: the stored parameters do.
func testSameVersion(t *testing.T, s Suite, rate algo.Rate) {
	p, old := newPair(t, s), Limit(t, "a", rate)
	same := changed(t, old, 1, algo.Rate{Algorithm: rate.Algorithm, Requests: 300, Window: time.Minute})
	p.take(t, start, one(old, 10), nil)
	if allowed, _ := p.take(t, start, one(same, 1), nil); allowed {
		t.Fatal("other parameters of the same version: got a decision by the new parameters, want one by the stored parameters")
	}
}

// Inspect and Reset read and delete the state of one subject only.
func testAdmin(t *testing.T, s Suite) {
	p, other := newPair(t, s), newPair(t, s)
	p.reset(t)
	if entries := p.inspect(t); len(entries) != 0 {
		t.Fatalf("a new subject: got entries %+v, want none", entries)
	}
	var charges []limiter.Charge
	for i, rate := range rates {
		charges = append(charges, limiter.Charge{Limit: Limit(t, string('a'+rune(i)), rate), Cost: 10})
	}
	_, before := p.take(t, start, charges, nil)
	other.take(t, start, charges, nil)
	if entries := p.inspect(t); len(entries) != len(rates) {
		t.Fatalf("got entries %+v, want %d limits", entries, len(rates))
	}
	p.reset(t)
	p.inspect(t)
	if allowed, _ := p.take(t, start, charges, before); !allowed {
		t.Fatal("after a reset: got a refusal by a cached state, want an allowed request")
	}
	if allowed, _ := other.take(t, start, charges, nil); allowed {
		t.Fatal("state of another subject: got it reset, want it unchanged")
	}
}

// Many concurrent callers at one instant get exactly the capacity.
func testConcurrent(t *testing.T, s Suite, rate algo.Rate) {
	stores := twoProcesses(t, s)
	l, who := Limit(t, "a", rate), subject()
	var admitted atomic.Int64
	together(t, 40, func(i int) {
		charges := []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}
		if takeSoon(t, stores[i%2], start, charges) {
			admitted.Add(1)
		}
	})
	if n := admitted.Load(); n != 10 {
		t.Fatalf("at one instant: got %d of 40 admitted, want 10", n)
	}
}

// One call of Take can charge limiter.MaxCharges limits of one subject.
func testMostLimits(t *testing.T, s Suite) {
	for _, name := range []string{"mixed", "sliding", "shared"} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, s)
			if _, ok := p.store.(limiter.Shares); name == "shared" && !ok {
				t.Skip("the store cannot move share between regions")
			}
			var charges []limiter.Charge
			for i := range limiter.MaxCharges {
				rate := rates[1]
				switch name {
				case "mixed":
					rate = rates[i%len(rates)]
				case "shared":
					rate.Regions.Of = 2
				}
				rate.Requests, rate.Burst = 1_000_000, 0
				if rate.Algorithm == algo.SlidingLog || rate.Algorithm == algo.Concurrent {
					rate.Requests = 100
				}
				charges = append(charges, limiter.Charge{Limit: Limit(t, string('a'+rune(i)), rate), Cost: 9})
			}
			now := start
			var results []algo.Result
			for i := range 6 {
				p.take(t, now, charges, nil)
				_, results = p.take(t, now, charges, results)
				now = now.Add(time.Duration(i) * 25 * time.Second)
			}
		})
	}
}

// A take whose context ends charges at most once. It returns an answer or an error.
func testCancelled(t *testing.T, s Suite) {
	p, l := newPair(t, s), Limit(t, "a", rates[2])
	p.take(t, start, one(l, 1), nil)
	charges := []limiter.Charge{{Subject: p.subject, Limit: l, Cost: 1}}
	answered, tried := int64(1), int64(1)
	for i := range 5 {
		ended, cancel := context.WithCancel(ctx)
		if i%2 == 0 {
			cancel()
		}
		ok, err := p.store.Take(ended, start, p.subject, charges, make([]algo.Result, 1))
		cancel()
		tried++
		if err != nil && !errors.Is(err, limiter.ErrUnavailable) {
			t.Fatalf("cancelled context: got error %v, want ErrUnavailable", err)
		}
		if ok {
			answered++
		}
	}
	if n := read(t, p.store, start, p.subject, l)[0].State.Count; n < answered || n > tried {
		t.Fatalf("got %d charges by %d takes with %d answers, want at least as many charges as answers and at most as many as takes", n, tried,
			answered)
	}
}

// takeSoon repeats a take until the store decides. After several lost races, a store returns
// ErrContended and charges nothing.
func takeSoon(t *testing.T, store limiter.Store, now algo.Instant, charges []limiter.Charge) bool {
	for {
		allowed, err := store.Take(ctx, now, charges[0].Subject, charges, make([]algo.Result, len(charges)))
		if errors.Is(err, limiter.ErrContended) {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		return allowed
	}
}

// read returns the states of limits by a request of cost 0.
func read(t *testing.T, store limiter.Store, now algo.Instant, who limiter.Subject, limits ...*limiter.Limit) []algo.Result {
	t.Helper()
	charges, results := make([]limiter.Charge, len(limits)), make([]algo.Result, len(limits))
	for i, l := range limits {
		charges[i] = limiter.Charge{Subject: who, Limit: l}
	}
	if _, err := store.Take(ctx, now, who, charges, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// together runs f in n goroutines at the same time.
func together(t *testing.T, n int, f func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}
