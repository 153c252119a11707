package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// environments returns n Limiters with one store, one per function environment.
func environments(n int, store limiter.Store) (list []*limiter.Limiter) {
	for range n {
		list = append(list, storetest.Must(limiter.New(store, limiter.Options{})))
	}
	return list
}

// With leases, one store call serves many requests. All environments together admit exactly the limit at one
// instant, at any concurrency.
func TestSpread_lease(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Requests: 1000, Window: time.Minute},
		{Requests: 1000, Window: time.Minute, Algorithm: algo.FixedWindow},
		{Requests: 1000, Window: time.Minute, Algorithm: algo.TokenBucket},
	} {
		t.Run(string(rate.WithDefaults().Algorithm), func(t *testing.T) {
			store := newRemote()
			l := limit(t, limiter.Limit{Name: "a", Rate: rate, Spread: limiter.Spread{Lease: 50}})
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for _, e := range environments(4, store) {
				for range 8 {
					wg.Go(func() {
						for range 200 { // each environment gets more requests than the limit, so that all leases are used up
							if takeAt(t, e, noon, limiter.Charge{Subject: other, Limit: l, Cost: 1}).Allowed {
								admitted.Add(1)
							}
						}
					})
				}
			}
			wg.Wait()
			if n := admitted.Load(); n != 1000 {
				t.Errorf("got %d admitted, want 1000", n)
			}
			if calls := store.takes.Load(); calls > 200 {
				t.Errorf("got %d store calls for 6400 decisions, want at most 200", calls)
			}
		})
	}
}

// If another limit refuses, a refusal does not name a limit whose lease has room, even if the store has nothing left of that
// limit.
func TestSpread_lease_otherRefuses(t *testing.T) {
	both := environments(2, newRemote())
	leased := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 20, Window: time.Hour, Algorithm: algo.FixedWindow},
		Spread: limiter.Spread{Lease: 8}})
	short := limit(t, limiter.Limit{Name: "b", Rate: algo.Rate{Requests: 1, Window: time.Minute, Algorithm: algo.FixedWindow}})
	first, second := limiter.Charge{Subject: user, Limit: leased, Cost: 1}, limiter.Charge{Subject: user, Limit: short, Cost: 1}
	for range 7 {
		takeAt(t, both[0], noon, first) // with leases of 1, 2 and 4
	}
	takeAt(t, both[1], noon, limiter.Charge{Subject: user, Limit: leased, Cost: 7})
	takeAt(t, both[0], noon, first) // with a lease of 6, which are the last
	takeAt(t, both[0], noon, second)
	left, d, again := mustPeek(t, both[0], noon, first).Remaining, takeAt(t, both[0], noon, first, second), takeAt(t, both[0], noon, first)
	if left != 0 || d.Allowed || d.Limit != short || d.RetryAfter != time.Minute || !again.Allowed {
		t.Errorf("with %d left in the store, want 0: got allowed %t by %q, retry after %s; want a refusal by b for a minute. A request of a "+
			"alone: got allowed %t, want true", left, d.Allowed, d.Limit.Name, d.RetryAfter, again.Allowed)
	}
}

// If another limit refuses, a refusal does not name a limit whose counter has room.
func TestSpread_sync_otherRefuses(t *testing.T) {
	e := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	counted := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Window: time.Hour, Algorithm: algo.FixedWindow},
		Spread: limiter.Spread{Sync: time.Second}})
	short := limiter.Charge{Subject: user, Cost: 1,
		Limit: limit(t, limiter.Limit{Name: "b", Rate: algo.Rate{Requests: 1, Window: time.Second, Algorithm: algo.FixedWindow}})}
	takeAt(t, e, noon, short)
	for range 2 {
		d := takeAt(t, e, noon, limiter.Charge{Subject: user, Limit: counted, Cost: 5}, short)
		if d.Allowed || d.Limit != short.Limit || d.RetryAfter != time.Second {
			t.Errorf("got allowed %t by %q, retry after %s; want a refusal by b for a second", d.Allowed, d.Limit.Name, d.RetryAfter)
		}
	}
}

// A lease ends after a second, and with its window. Its size depends on the traffic.
func TestSpread_lease_size(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10_000, Window: time.Minute}, Spread: limiter.Spread{Lease: 64}})
	c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
	used := func() int64 { return 10_000 - mustPeek(t, e, noon, c).Remaining }

	for i := range 200 {
		d := takeAt(t, e, noon, c)
		if want := int64(10_000 - i - 1); d.Remaining != want {
			t.Fatalf("request %d: %d remaining, want %d", i+1, d.Remaining, want)
		}
	}
	// Nine calls take leases of 1 + 2 + 4 + 8 + 16 + 32 + 64 + 64 + 64 = 255 requests.
	if calls, charged := store.takes.Load(), used(); calls != 9 || charged != 255 {
		t.Fatalf("200 requests: got %d calls and %d charged, want 9 and 255", calls, charged)
	}
	later := noon.Add(1001 * time.Millisecond)
	// Nine requests used nine units of the last lease. The rest of this lease expires.
	for range 2 {
		takeAt(t, e, later, c)
	}
	if calls, charged := store.takes.Load(), used(); calls != 11 || charged != 255+9 {
		t.Fatalf("after a second: got %d calls and %d charged, want 11 and 264", calls, charged)
	}
	for i := range 5 { // one request a minute takes a lease of one
		takeAt(t, e, noon.Add(time.Duration(i+10)*time.Hour), c)
	}
	if d := mustPeek(t, e, noon.Add(14*time.Hour), c); d.Remaining != 9999 {
		t.Fatalf("one request a minute: got %d remaining, want 9999", d.Remaining)
	}
	// A window's lease ends with its window.
	end := noon.Add(20*time.Hour - time.Millisecond)
	for range 3 {
		takeAt(t, e, end, c)
	}
	before := store.takes.Load()
	takeAt(t, e, end.Add(time.Millisecond), c)
	if store.takes.Load() == before {
		t.Fatal("got an admission by a lease of an earlier window, want none")
	}
}

func mustPeek(tb testing.TB, l *limiter.Limiter, now time.Time, charges ...limiter.Charge) limiter.Decision {
	tb.Helper()
	d, err := l.Peek(ctx, now, charges)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// With leases, several environments together admit at most the bound of the limit. Arrivals, environments and refunds are random.
func TestSpread_bound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := algo.Rate{
			Algorithm: rapid.SampledFrom([]algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow}).Draw(t, "algorithm"),
			Requests:  rapid.Int64Range(2, 40).Draw(t, "requests"), Window: 2 * time.Second,
		}.WithDefaults()
		spread := limiter.Spread{Lease: rapid.Int64Range(2, rate.Requests).Draw(t, "lease")}
		l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rate: rate, Spread: spread})
		if err != nil {
			t.Fatal(err)
		}
		all := environments(rapid.IntRange(1, 3).Draw(t, "environments"), newRemote())
		type admission struct {
			at      time.Time
			cost    int64
			receipt *limiter.Receipt
		}
		var admitted []admission
		now := noon
		for range rapid.IntRange(20, 300).Draw(t, "requests") {
			longest := rapid.SampledFrom([]time.Duration{80 * time.Millisecond, 80 * time.Millisecond, 3 * time.Second}).Draw(t, "longest")
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(longest)).Draw(t, "pause")))
			charges := []limiter.Charge{{Subject: user, Limit: l, Cost: rapid.Int64Range(1, 2).Draw(t, "cost")}}
			if rapid.IntRange(0, 3).Draw(t, "also") == 0 { // a limit that refuses most requests
				charges = append(charges, limiter.Charge{Subject: limiter.Global(), Cost: 1, Limit: tight})
			}
			e := rapid.SampledFrom(all).Draw(t, "environment")
			d, receipt, err := e.TakeRefundable(ctx, now, charges)
			if err != nil {
				t.Fatal(err)
			}
			if d.Allowed {
				admitted = append(admitted, admission{now, charges[0].Cost, receipt})
			}
			if len(admitted) > 0 && rapid.IntRange(0, 9).Draw(t, "refund") == 0 {
				i := rapid.IntRange(max(0, len(admitted)-10), len(admitted)-1).Draw(t, "which")
				admitted[i].receipt.Refund(ctx, now)
				admitted = append(admitted[:i], admitted[i+1:]...)
			}
		}
		for i := range admitted {
			sum := int64(0)
			for _, a := range admitted[i:] {
				sum += a.cost
				length := a.at.Sub(admitted[i].at)
				bound := float64(rate.Requests) * (1 + float64(length)/float64(rate.Window))
				if rate.Algorithm == algo.FixedWindow {
					windows := a.at.UnixNano()/int64(rate.Window) - admitted[i].at.UnixNano()/int64(rate.Window) + 1
					bound = float64(rate.Requests * windows)
				}
				if float64(sum) > bound+1e-9 {
					t.Fatalf("%s of %d, %+v: %v admitted in %s, want at most %v", rate.Algorithm, rate.Requests, spread, sum, length, bound)
				}
			}
		}
	})
}

var tight = func() *limiter.Limit {
	l, err := limiter.NewLimit(limiter.Limit{Name: "tight", Rate: algo.Rate{Requests: 1, Window: time.Second}})
	if err != nil {
		panic(err)
	}
	return l
}()

// A caller that continues to send requests gets exactly the limit from all shards together. No shard
// refuses a request long before the limit is used up.
func TestSpread_shards(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Requests: 1003, Window: time.Minute},
		{Requests: 1003, Window: time.Minute, Algorithm: algo.FixedWindow},
		{Requests: 1003, Window: time.Minute, Algorithm: algo.TokenBucket},
		{Requests: 323, Window: time.Minute, Algorithm: algo.SlidingLog},
	} {
		t.Run(string(rate.WithDefaults().Algorithm), func(t *testing.T) {
			e := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
			l := limit(t, limiter.Limit{Name: "a", Rate: rate, Spread: limiter.Spread{Shards: 8}})
			c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
			admitted, first := int64(0), int64(0)
			for i := range 3 * rate.Requests {
				d := takeAt(t, e, noon, c)
				switch {
				case d.Allowed && d.Capacity != rate.Requests:
					t.Fatalf("got capacity %d, want the capacity of the whole limit", d.Capacity)
				case d.Allowed:
					admitted++
				case first == 0:
					first = i
				}
			}
			if admitted != rate.Requests {
				t.Errorf("got %d admitted, want %d", admitted, rate.Requests)
			}
			if first < rate.Requests*9/10 {
				t.Errorf("first refusal after %d requests, want at least %d", first, rate.Requests*9/10)
			}
			t.Logf("first refusal after %d of %d requests", first, rate.Requests)
			if err := e.Reset(ctx, []limiter.Charge{c}); err != nil {
				t.Fatal(err)
			}
			for i := range rate.Requests / 2 {
				if !takeAt(t, e, noon, c).Allowed {
					t.Fatalf("got a refusal after a reset and %d requests, want an admission", i)
				}
			}
		})
	}
}

// A request charges limits with every Spread and limits without one. If one limit refuses, no limit is
// charged.
func TestSpread_together(t *testing.T) {
	rate := algo.Rate{Requests: 100, Window: time.Minute}
	kinds := map[string]limiter.Spread{"lease": {Lease: 10}, "shards": {Shards: 4}, "sync": {Sync: time.Second}, "none": {}}
	for tightest := range kinds {
		t.Run(tightest, func(t *testing.T) {
			e := environments(1, newRemote())[0]
			var charges []limiter.Charge
			for name, spread := range kinds {
				r := rate
				if name == tightest {
					r.Requests = 24
				}
				charges = append(charges, limiter.Charge{Subject: user, Cost: 1,
					Limit: limit(t, limiter.Limit{Name: name, Rate: r, Spread: limiterSpread(spread, r)})})
			}
			allowed := 0
			for range 60 {
				if takeAt(t, e, noon, charges...).Allowed {
					allowed++
				}
			}
			want := 24
			if (tightest == "shards" || tightest == "sync") && allowed >= 12 && allowed <= 24 {
				want = allowed // a shard or a share can refuse while others have room
			}
			if allowed != want {
				t.Fatalf("got %d allowed, want %d", allowed, want)
			}
			for _, c := range charges {
				if c.Limit.Name == tightest || c.Limit.Name == "shards" || c.Limit.Name == "sync" {
					continue
				}
				left := 0
				for takeAt(t, e, noon, c).Allowed {
					left++
				}
				if left != 100-allowed {
					t.Errorf("%s: got %d remaining, want %d", c.Limit.Name, left, 100-allowed)
				}
			}
		})
	}
}

// limiterSpread returns s with a lease of at most r.Requests, so that NewLimit accepts it.
func limiterSpread(s limiter.Spread, r algo.Rate) limiter.Spread {
	s.Lease = min(s.Lease, r.Requests)
	return s
}

// A shadow limit refuses no request and counts separately. Decisions report what it would have refused.
func TestLimit_Shadow(t *testing.T) {
	for name, spread := range map[string]limiter.Spread{"plain": {}, "lease": {Lease: 2}, "sync": {Sync: time.Second}, "shards": {Shards: 2}} {
		t.Run(name, func(t *testing.T) {
			e := environments(1, newRemote())[0]
			rate := algo.Rate{Requests: 4, Window: time.Minute}
			shadow := limit(t, limiter.Limit{Name: "a", Rate: rate, Spread: spread, Shadow: true})
			enforced := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}})
			charges := []limiter.Charge{{Subject: user, Limit: shadow, Cost: 1}, {Subject: user, Limit: enforced, Cost: 1}}
			shadowed, allowed := 0, 0
			for range 12 {
				d := takeAt(t, e, noon, charges...)
				if d.Allowed {
					allowed++
				}
				if d.Shadowed == shadow {
					shadowed++
				}
				if d.Limit == shadow {
					t.Fatal("got a shadow limit in the answer, want none")
				}
			}
			least, most := 8, 8
			switch name {
			case "shards":
				most = 10
			case "sync": // a counter is not asked if this process knows that another limit refuses
				least, most = 6, 6
			}
			if allowed != 10 || shadowed < least || shadowed > most {
				t.Fatalf("got %d allowed and %d shadowed, want 10 and %d to %d", allowed, shadowed, least, most)
			}
		})
	}
}

// If the store of a shadow limit fails, the decision is not degraded.
func TestLimit_Shadow_failure(t *testing.T) {
	store := newRemote()
	store.fail = map[limiter.Subject]error{limiter.User("x"): nil}
	e := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 4, Window: time.Minute}, Shadow: true})
	store.fail[l.Subjects(user)[0]] = limiter.ErrUnavailable
	if d, err := e.Take(ctx, noon, []limiter.Charge{{Subject: user, Limit: l, Cost: 1}}); err != nil || !d.Allowed ||
		d.Reason != limiter.ReasonNone {
		t.Fatalf("got %+v, error %v; want an admission without a reason", d, err)
	}
}

// An invalid Spread is rejected with the name of its field.
func TestSpread_mistakes(t *testing.T) {
	for field, l := range map[string]limiter.Limit{
		"lease":   {Spread: limiter.Spread{Lease: 11}},
		"lease ":  {Spread: limiter.Spread{Lease: -1}},
		"lease  ": {Spread: limiter.Spread{Lease: 2}, Rate: algo.Rate{Algorithm: algo.SlidingLog}},
		"shards":  {Spread: limiter.Spread{Shards: 11}},
		"shards ": {Spread: limiter.Spread{Shards: 2, Lease: 2}},
		"sync_ms": {Spread: limiter.Spread{Sync: 4 * time.Second}},

		"sync_ms ":  {Spread: limiter.Spread{Sync: time.Second}, Rate: algo.Rate{Algorithm: algo.SlidingLog}},
		"sync_ms  ": {Spread: limiter.Spread{Sync: time.Second}, Rate: algo.Rate{Algorithm: algo.LeakyBucket}},
	} {
		l.Name, l.Rate.Requests, l.Rate.Window = "a", 10, time.Minute
		_, err := limiter.NewLimit(l)
		if mistake, ok := errors.AsType[*algo.FieldError](err); !ok || mistake.Field != strings.TrimSpace(field) {
			t.Errorf("%+v: got %v, want an error of %s", l.Spread, err, field)
		}
	}
}

// The number of leases and counters is bounded. Limits without a lease or counter are still exact.
func TestSpread_bounded(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{Subjects: 24}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Window: time.Minute}, Spread: limiter.Spread{Lease: 3}})
	for i := range 100 {
		caller := limiter.User(fmt.Sprint(i))
		for n := range 7 {
			if d := takeAt(t, e, noon, limiter.Charge{Subject: caller, Limit: l, Cost: 1}); d.Allowed != (n < 5) {
				t.Fatalf("caller %d, request %d: got allowed %t, want %t", i, n+1, d.Allowed, n < 5)
			}
		}
	}
}

// Peek includes the count of this environment's counter. It does not use quota of a lease.
func TestSpread_peek(t *testing.T) {
	for _, spread := range []limiter.Spread{{Sync: time.Second}, {Lease: 4}, {Shards: 2}, {}} {
		e := environments(1, newRemote())[0]
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Minute}, Spread: spread})
		c := limiter.Charge{Subject: user, Limit: l, Cost: 1}
		for i := range 3 {
			if d := mustPeek(t, e, noon, c); !d.Allowed {
				t.Fatalf("%+v, Peek %d: got %+v, want an admission", spread, i, d)
			}
		}
		for takeAt(t, e, noon, c).Allowed {
			if spread.Shards == 0 && !mustPeek(t, e, noon, limiter.Charge{Subject: other, Limit: l, Cost: 1}).Allowed {
				t.Fatalf("%+v: another caller: got a refusal, want an admission", spread)
			}
		}
		if d := mustPeek(t, e, noon, c); d.Allowed || d.RetryAfter == 0 {
			t.Errorf("%+v, the limit is used up: got %+v from Peek, want a refusal with a wait", spread, d)
		}
	}
}

// A reset deletes all counts of a limit, with every Spread, in a store of this process and in a remote store.
func TestLimiter_Reset(t *testing.T) {
	for _, spread := range []limiter.Spread{{Sync: time.Second}, {Lease: 4}, {Shards: 2}, {}} {
		for _, shadow := range []bool{false, true} {
			for _, store := range []limiter.Store{newRemote(), storetest.Must(memstore.New(memstore.Options{}))} {
				e := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute},
					Spread: spread, Shadow: shadow})}
				full := func() bool { d := takeAt(t, e, noon, c); return !d.Allowed || d.Shadowed != nil }
				for !full() {
				}
				if err := e.Reset(ctx, []limiter.Charge{c}); err != nil {
					t.Fatal(err)
				}
				if full() {
					t.Errorf("%+v, shadow %t, %T: got a refusal after a reset, want an admission", spread, shadow, store)
				}
			}
		}
	}
}

// resetting is a store that calls its field then at the end of each Reset.
type resetting struct {
	*remote
	then func()
}

func (r *resetting) Reset(ctx context.Context, s limiter.Subject) error {
	defer r.then()
	return r.remote.Reset(ctx, s)
}

// After a reset, a counter sends no earlier counts to the store.
func TestLimiter_Reset_pending(t *testing.T) {
	store := &resetting{remote: newRemote()}
	e := storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Hour},
		Spread: limiter.Spread{Sync: time.Second}})}
	for range 5 {
		takeAt(t, e, noon, c)
	}
	store.then = func() { takeAt(t, e, noon.Add(2*time.Second), c) }
	if err := e.Reset(ctx, []limiter.Charge{c}); err != nil {
		t.Fatal(err)
	}
	takeAt(t, e, noon.Add(2*time.Second), c)
	later := noon.Add(time.Minute)
	takeAt(t, e, later, c)
	if n := used(t, store, later, c); n != 1 {
		t.Errorf("got %d charges in the store, want 1, because the reset also deletes charges that are made during the reset", n)
	}
}

// A forced charge on a limit with shards is rejected, because one shard cannot hold the debt.
func TestSpread_shards_force(t *testing.T) {
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Spread: limiter.Spread{Shards: 2}})
	_, err := environments(1, newRemote())[0].Take(ctx, noon, []limiter.Charge{{Subject: user, Limit: l, Cost: 1, Force: true}})
	if !errors.Is(err, limiter.ErrInvalidCharge) {
		t.Errorf("got error %v, want %v", err, limiter.ErrInvalidCharge)
	}
}

// If shards have unequal sizes, decisions still report the capacity of the whole limit.
func TestSpread_shards_uneven(t *testing.T) {
	e := storetest.Must(limiter.New(newRemote(), limiter.Options{CacheTTL: time.Nanosecond}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Minute},
		Spread: limiter.Spread{Shards: 7}})}
	for i := range 300 {
		now := noon.Add(time.Duration(i%2) * time.Millisecond)
		if d := takeAt(t, e, now, c); d.Superseded || d.Capacity != 100 || !d.Allowed && d.RetryAfter <= 0 {
			t.Fatalf("request %d: got %+v, want a capacity of 100 and a wait for each refusal", i, d)
		}
	}
}

// To make room for other subjects, an environment removes idle leases and counters, but none in use.
func TestSpread_eviction(t *testing.T) {
	for _, spread := range []limiter.Spread{{Lease: 100}, {Sync: 10 * time.Millisecond}} {
		store := newRemote()
		e := storetest.Must(limiter.New(store, limiter.Options{Subjects: 6}))
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Second}, Spread: spread})
		calls := func(now time.Time, caller string, n int) int64 {
			before := store.takes.Load()
			for range n {
				if !takeAt(t, e, now, limiter.Charge{Subject: limiter.User(caller), Limit: l, Cost: 1}).Allowed {
					t.Fatalf("%s: got a refusal, want an admission", caller)
				}
			}
			return store.takes.Load() - before
		}
		for _, caller := range []string{"a", "b", "c"} {
			if n := calls(noon, caller, 40); n > 6 {
				t.Errorf("%+v: subject %s: got %d calls, want at most 6, because it has a lease or counter", spread, caller, n)
			}
		}
		if n := calls(noon.Add(time.Millisecond), "d", 40); n != 40 {
			t.Errorf("%+v: subject d: got %d calls, want 40, because it has no lease or counter", spread, n)
		}
		if n := calls(noon.Add(10*time.Second), "e", 40); n > 6 {
			t.Errorf("%+v: subject e: got %d calls, want at most 6, because the other subjects are idle", spread, n)
		}
	}
}

// slow is a store whose Takes block until the test releases them.
type slow struct {
	*remote
	in, out chan struct{}
}

func (s *slow) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	s.in <- struct{}{}
	<-s.out
	return s.remote.Take(ctx, now, subject, charges, results)
}

// panicking is a store that charges and then panics.
type panicking struct {
	*remote
	now bool
}

func (p *panicking) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	taken, err := p.remote.Take(ctx, now, s, charges, results)
	if p.now {
		panic("broken")
	}
	return taken, err
}

// After a panic of the store, other requests do not wait for the one that panicked, and a store gets each sync once.
func TestSpread_panic(t *testing.T) {
	for _, c := range []struct {
		spread         limiter.Spread
		step           time.Duration
		panics, admits int
	}{{limiter.Spread{Lease: 3}, 0, 0, 4}, {limiter.Spread{Sync: time.Second}, 2 * time.Second, 0, 5},
		{limiter.Spread{Sync: time.Second}, 2 * time.Second, 3, 5}} {
		store := &panicking{remote: newRemote()}
		e := storetest.Must(limiter.New(store, limiter.Options{}))
		l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Window: time.Minute}, Spread: c.spread})
		admitted := 0
		for i := range 12 {
			store.now = i == c.panics
			func() {
				defer func() {
					if recovered := recover() != nil; recovered != store.now {
						t.Errorf("%+v, request %d: got panic %t", c, i, recovered)
					}
				}()
				if takeAt(t, e, noon.Add(time.Duration(i)*c.step), limiter.Charge{Subject: user, Limit: l, Cost: 1}).Allowed {
					admitted++
				}
			}()
		}
		if admitted != c.admits {
			t.Errorf("%+v: got %d admitted, want %d", c, admitted, c.admits)
		}
	}
}

// If the clock goes back by more than the life of a lease, the lease ends.
func TestSpread_lease_clockBack(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Hour},
		Spread: limiter.Spread{Lease: 100}})}
	for range 200 {
		takeAt(t, e, noon, c)
	}
	before := store.takes.Load()
	takeAt(t, e, noon.Add(-900*time.Millisecond), c)
	if store.takes.Load() != before {
		t.Error("900 ms before the lease: got a store call, want a decision by the lease")
	}
	takeAt(t, e, noon.Add(-1100*time.Millisecond), c)
	if store.takes.Load() == before {
		t.Error("1100 ms before the lease: got a decision by the lease, want a store call")
	}
}

// If another limit refuses a request, the lease that the request took stays for the next requests. A
// refund returns quota to a lease. A forced charge is not refunded.
func TestSpread_lease_kept(t *testing.T) {
	e := storetest.Must(limiter.New(newRemote(), limiter.Options{CacheTTL: -1}))
	leased := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t,
		limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Spread: limiter.Spread{Lease: 5}})}
	once := limiter.Charge{Subject: limiter.Global(), Cost: 1, Limit: tight}
	for i := range 4 {
		if takeAt(t, e, noon, leased, once).Allowed != (i == 0) {
			t.Fatalf("request %d: got a refusal, want an admission", i+1)
		}
	}
	_, receipt, err := e.TakeRefundable(ctx, noon, []limiter.Charge{leased})
	if err != nil {
		t.Fatal(err)
	}
	receipt.Refund(ctx, noon)
	admitted := 0
	for takeAt(t, e, noon, leased).Allowed {
		admitted++
	}
	if admitted != 9 {
		t.Errorf("got %d admitted, want the remaining 9", admitted)
	}
	for _, spread := range []limiter.Spread{{}, {Sync: time.Second}, {Lease: 5}} {
		c := limiter.Charge{Subject: other, Cost: 4, Force: true,
			Limit: limit(t, limiter.Limit{Name: "b", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Spread: spread})}
		if err := e.Reset(ctx, []limiter.Charge{c}); err != nil {
			t.Fatal(err)
		}
		_, receipt, err := e.TakeRefundable(ctx, noon, []limiter.Charge{c})
		if err != nil {
			t.Fatal(err)
		}
		receipt.Refund(ctx, noon)
		if d := mustPeek(t, e, noon, limiter.Charge{Subject: other, Cost: 1, Limit: c.Limit}); d.Remaining < 6 || d.Remaining > 7 {
			t.Errorf("%+v: forced 4 of 10, then refunded: got %d remaining, want 6", spread, d.Remaining)
		}
	}
}

// Options.IntN chooses the first shard that is charged.
func TestSpread_shards_chosen(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{IntN: func(n int) int { return n - 2 }}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 40, Window: time.Minute}, Spread: limiter.Spread{Shards: 4}})
	for i := range 10 {
		if d := takeAt(t, e, noon, limiter.Charge{Subject: user, Limit: l, Cost: 1}); !d.Allowed || d.StoreCalls != 1 {
			t.Fatalf("request %d: got allowed %t with %d calls, want true with 1", i+1, d.Allowed, d.StoreCalls)
		}
	}
	for i, shard := range l.Subjects(user) {
		if held, err := store.Inspect(ctx, shard); err != nil || len(held) > 0 != (i == 2) {
			t.Errorf("shard %d: got %v, %v, want only shard 2 charged", i, held, err)
		}
	}
}
