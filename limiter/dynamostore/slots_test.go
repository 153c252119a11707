package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

func slotsOf(tb testing.TB, n int64) *limiter.Limit {
	return storetest.Limit(tb, "slots", algo.Rate{Algorithm: algo.Concurrent, Requests: n, Window: time.Minute})
}

// A charge and a release take one call each. The test covers new and known subjects, a repeated release, and
// slots of other requests, also in a new environment.
func TestSlots_calls(t *testing.T) {
	first, m := metered(t)
	l, ctx := slotsOf(t, 5), context.Background()
	calls := func(what string, want int64, f func()) {
		t.Helper()
		before := m.calls.Load()
		f()
		if got := m.calls.Load() - before; got != want {
			t.Errorf("%s: got %d calls, want %d", what, got, want)
		}
	}
	take := func(s *dynamostore.Store, who limiter.Subject, hint algo.Result) []algo.Result {
		results := []algo.Result{hint}
		if ok, err := s.Take(ctx, algo.InstantOf(noon), who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, results); err != nil || !ok {
			t.Fatalf("got %t and error %v, want an admission", ok, err)
		}
		return results
	}
	s, who := first, limiter.User("a")
	var held []algo.Result
	calls("a new subject", 1, func() { held = take(s, who, algo.Result{}) })
	calls("a cached subject", 1, func() { take(s, who, held[0]) })
	calls("a release", 1, func() {
		if settled, err := s.Settle(ctx, algo.InstantOf(noon), who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, held, 0); err != nil ||
			settled.Given != 1 {
			t.Errorf("got %+v and error %v, want one release", settled, err)
		}
	})
	calls("a second release", 1, func() {
		if settled, err := s.Settle(ctx, algo.InstantOf(noon), who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, held, 0); err != nil ||
			settled.Given != 0 {
			t.Errorf("got %+v and error %v, want no release", settled, err)
		}
	})
	for i := range 8 {
		take(open(m), limiter.User(fmt.Sprint(i)), algo.Result{})
	}
	other := open(m)
	calls("known subjects of a new environment", 8, func() {
		for i := range 8 {
			take(other, limiter.User(fmt.Sprint(i)), algo.Result{})
		}
	})
}

// An environment remembers slots that are ahead of its clock, but a reset has removed them. A charge still takes one
// call.
func TestSlots_staleHint(t *testing.T) {
	s, m := metered(t)
	who, ctx := caller(), context.Background()
	charges := []limiter.Charge{{Subject: who, Limit: slotsOf(t, 5), Cost: 1}}
	take := func(now time.Time, results []algo.Result) {
		t.Helper()
		if ok, err := s.Take(ctx, algo.InstantOf(now), who, charges, results); err != nil || !ok {
			t.Fatalf("got %t and error %v, want an admission", ok, err)
		}
	}
	remembered := make([]algo.Result, 1)
	take(noon.Add(algo.MaxSkew), remembered)
	if err := s.Reset(ctx, who); err != nil {
		t.Fatal(err)
	}
	take(noon, make([]algo.Result, 1))
	before := m.calls.Load()
	take(noon, remembered)
	if m.calls.Load() != before+1 || remembered[0].Remaining(algo.InstantOf(noon)) != 3 {
		t.Errorf("got %d calls and %d free slots, want 1 and 3", m.calls.Load()-before, remembered[0].Remaining(algo.InstantOf(noon)))
	}
}

// A caller uses four concurrent limits in turn. The store keeps the released limits of an item for an hour,
// so a charge and a release take two calls. It removes them after that hour.
func TestSlots_idle(t *testing.T) {
	s, m := metered(t)
	who, ctx := caller(), context.Background()
	remembered := map[string][]algo.Result{}
	request := func(now time.Time, name string) {
		t.Helper()
		l := storetest.Limit(t, name, algo.Rate{Algorithm: algo.Concurrent, Requests: 5, Window: time.Minute})
		charges, results := []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, make([]algo.Result, 1)
		copy(results, remembered[name])
		if ok, err := s.Take(ctx, algo.InstantOf(now), who, charges, results); err != nil || !ok {
			t.Fatalf("got %t and error %v, want an admission", ok, err)
		}
		if settled, err := s.Settle(ctx, algo.InstantOf(now), who, charges, results, 0); err != nil || settled.Given != 1 {
			t.Fatalf("got %+v and error %v, want one release", settled, err)
		}
		remembered[name] = results
	}
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		request(noon, name)
	}
	before := m.calls.Load()
	for i := range 20 {
		request(noon.Add(time.Duration(i)*2*time.Minute), names[i%4])
	}
	if calls := m.calls.Load() - before; calls != 40 {
		t.Errorf("20 requests: got %d calls, want 40", calls)
	}
	request(noon.Add(3*time.Hour), "e")
	if entries, err := s.Inspect(ctx, who); err != nil || len(entries) != 1 {
		t.Errorf("after an hour: got %d limits and error %v, want 1", len(entries), err)
	}
}

// Two environments release slots while others take slots and charge a log of the same item. No release is
// lost, although a refund of the log would collide with every append.
func TestSlots_releases(t *testing.T) {
	client, table := onServer(t)
	const each, n = 40, 300
	l, who, ctx := slotsOf(t, n), limiter.User("a"), context.Background()
	log := storetest.Limit(t, "log", algo.Rate{Algorithm: algo.SlidingLog, Requests: 300, Window: time.Hour})
	charges := []limiter.Charge{{Subject: who, Limit: l, Cost: 1}, {Subject: who, Limit: log, Cost: 1}}
	var environments [4]*dynamostore.Store
	for i := range environments {
		environments[i] = storetest.Must(dynamostore.NewBare(client, dynamostore.Options{Table: table, Namespace: "slots"}))
	}
	var unknown atomic.Int64 // charges and releases that ended with an error, so that DynamoDB may have made them or not
	take := func(s *dynamostore.Store, after int) []algo.Result {
		for {
			results := make([]algo.Result, len(charges))
			ok, err := s.Take(ctx, algo.InstantOf(noon).Add(time.Duration(after)), who, charges, results)
			if ok && err == nil {
				return results
			}
			if err != nil && !errors.Is(err, limiter.ErrContended) {
				unknown.Add(1)
			}
		}
	}
	var held [2][each][]algo.Result
	for e := range held {
		for i := range each {
			held[e][i] = take(environments[e], e*each+i)
		}
	}
	var wg sync.WaitGroup
	for e, s := range environments {
		wg.Go(func() {
			for i := range each {
				if e >= len(held) {
					take(s, 1000*e+i)
					continue
				}
				// The slot is released even if the refund of the log loses all races.
				if _, err := s.Settle(ctx, algo.InstantOf(noon), who, charges, held[e][i], 0); err != nil && !errors.Is(err, limiter.ErrContended) {
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	entries, err := environments[0].Inspect(ctx, who)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if slots, ok := entry.Machine.(*algo.Slots); ok {
			if used := slots.Used(entry.State, algo.InstantOf(noon)); used < 2*each || used > 2*each+unknown.Load() {
				t.Errorf("got %d slots taken, want the %d that were not released; %d calls ended with an error", used, 2*each, unknown.Load())
			}
		}
	}
}

// A charge from a slow clock records the Skew of slots in the item that are too far ahead, even if the cached slots are
// not too far ahead.
func TestSlots_markBehindCache(t *testing.T) {
	s := open(&memtable.Table{})
	l, who, ctx := slotsOf(t, 5), limiter.User("a"), context.Background()
	slow := algo.InstantOf(noon).Add(algo.MaxSkew/2 - time.Second)
	take := func(now algo.Instant, results []algo.Result) {
		t.Helper()
		if ok, err := s.Take(ctx, now, who, []limiter.Charge{{Subject: who, Limit: l, Cost: 1}}, results); err != nil || !ok {
			t.Fatalf("got %t and error %v, want an admission", ok, err)
		}
	}
	cached, fast := make([]algo.Result, 1), slow.Add(algo.MaxSkew+time.Millisecond)
	take(slow.Add(algo.MaxSkew-time.Millisecond), cached)
	take(fast, make([]algo.Result, 1))
	take(slow, cached)
	entries, err := s.Inspect(ctx, who)
	if want := (algo.Skew{Since: slow, Newest: int64(fast)}); err != nil || len(entries) != 1 || entries[0].Skew != want {
		t.Errorf("got %+v and error %v, want one limit with Skew %+v", entries, err, want)
	}
}
