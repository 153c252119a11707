package limiter_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// reloaded returns a limit of n an hour, as a new document makes it.
func reloaded(t *testing.T, version, n int64, spread limiter.Spread, o limiter.OnError, rate algo.Rate) limiter.Charge {
	t.Helper()
	rate.Requests, rate.Window = n, time.Hour
	return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: version, Rate: rate, Spread: spread,
		OnError: o})}
}

// New rules arrive between the last report of a process and an outage. The process keeps its count: with the same
// numbers, with fewer and with more, and also if the limit has no sync_ms any more.
func TestSync_reload_outage(t *testing.T) {
	rate := algo.Rate{Algorithm: algo.FixedWindow}
	for _, o := range []limiter.OnError{limiter.OnErrorLocal, limiter.OnErrorAllow} {
		for _, after := range []int64{100, 60, 150} {
			store, now := newOutage(), noon
			l := quiet(store)
			spread := limiter.Spread{Sync: time.Second}
			admit := func(c limiter.Charge) (n int) {
				for range 600 {
					now = now.Add(1500 * time.Millisecond)
					n += admissions(t, l, 1, now, c)
				}
				return n
			}
			n := admit(reloaded(t, 1, 100, spread, o, rate))
			if n != 100 {
				t.Fatalf("got %d admitted before the outage, want 100", n)
			}
			store.fails(true)
			if n, want := admit(reloaded(t, 2, after, spread, o, rate)), max(0, after-100); int64(n) != want {
				t.Errorf("%s: got %d admitted under a limit of %d in the outage, want %d", o, n, after, want)
			}
			if n := admit(reloaded(t, 3, after, limiter.Spread{}, o, rate)); o == limiter.OnErrorLocal && n != 0 {
				t.Errorf("got %d admitted without sync_ms, want 0", n)
			}
		}
	}
}

// After an outage, a limit with sync_ms counts what this process admitted in the outage.
func TestSync_outage(t *testing.T) {
	for _, processes := range []int{1, 4} {
		store, random := newOutage(), rand.New(rand.NewPCG(1, 1))
		l := drawing(store, random)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
			Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Hour},
			Spread: limiter.Spread{Sync: limiter.DefaultSync}, LocalProcesses: processes,
		})}
		store.fails(true)
		n, now := 0, noon
		for i := range 4000 {
			switch i {
			case 1000, 3000:
				store.fails(false)
			case 2000:
				store.fails(true)
			}
			now = now.Add(20 * time.Millisecond)
			n += admissions(t, l, 1, now, c)
		}
		if n > 100 || n < 50 {
			t.Errorf("%d processes: got %d admitted, want at most 100", processes, n)
		}
	}
}

// A limit that loses its sync_ms loses the charges since the last report, and nothing else.
func TestSync_reload(t *testing.T) {
	for _, spread := range []limiter.Spread{{Sync: limiter.DefaultSync}} {
		store := newOutage()
		l := drawing(store, rand.New(rand.NewPCG(1, 1)))
		before := reloaded(t, 1, 100_000, spread, limiter.OnErrorLocal, algo.Rate{Algorithm: algo.FixedWindow})
		n, now := 0, noon
		for range 10_000 {
			now = now.Add(time.Millisecond)
			n += admissions(t, l, 1, now, before)
		}
		after := reloaded(t, 2, 100_000, limiter.Spread{}, limiter.OnErrorLocal, algo.Rate{Algorithm: algo.FixedWindow})
		counted := used(t, store, now, after)
		if lost := int64(n) - counted; lost < 0 || lost > 1000 {
			t.Errorf("%+v: got %d charges lost, want at most those of a second, 1000", spread, lost)
		}
		if d := takeAt(t, l, now, after); d.Remaining != 100_000-counted-1 {
			t.Errorf("%+v: got %d remaining, want %d", spread, d.Remaining, 100_000-counted-1)
		}
	}
}

// The store converts a count with the first charge under new rules that reaches it. A refusal by the denial cache does
// not, and a charge of cost 0 only reads. One store without a cache converts earlier, and then refuses more: a window
// counts for an hour what the log of a minute would soon forget. The later conversion counts what the log counts then.
func TestReload_convertedLater(t *testing.T) {
	minute, hour := algo.Rate{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute}, algo.Rate{Algorithm: algo.FixedWindow,
		Requests: 10, Window: time.Hour}
	charge := func(name string, version, cost int64, rate algo.Rate) limiter.Charge {
		return limiter.Charge{Subject: user, Cost: cost, Limit: limit(t, limiter.Limit{Name: name, Version: version, Rate: rate})}
	}
	before, after, tight := charge("a", 1, 5, minute), charge("a", 2, 1, hour), charge("b", 2, 10, hour)
	look := after
	look.Cost = 0
	for name, cached := range map[string]limiter.Charge{"cost 0": look, "another limit": tight} {
		store, one := newRemote(), storetest.Must(memstore.New(memstore.Options{}))
		l := quiet(store)
		take := func(at time.Duration, want, wantOne bool, charges ...limiter.Charge) limiter.Decision {
			t.Helper()
			d := takeAt(t, l, noon.Add(at), charges...)
			ok, err := one.Take(ctx, algo.InstantOf(noon.Add(at)), user, charges, make([]algo.Result, len(charges)))
			if d.Allowed != want || ok != wantOne || err != nil {
				t.Errorf("%s, after %s: got allowed %t, and %t by one store, error %v; want %t and %t", name, at, d.Allowed, ok, err, want, wantOne)
			}
			return d
		}
		take(0, true, true, before)
		take(30*time.Second, true, true, before)
		take(50*time.Second, true, true, cached)
		refused := []limiter.Charge{after}
		if cached.Cost > 0 {
			refused = append(refused, tight)
		}
		if d := take(50*time.Second, false, false, refused...); !d.FromCache {
			t.Errorf("%s: got a refusal by the store, want one by the denial cache", name)
		}
		if d := take(61*time.Second, true, false, after); d.Remaining != 4 {
			t.Errorf("%s: got %d remaining after the conversion, want 4: the log counts 5", name, d.Remaining)
		}
	}
}

func drawing(store limiter.Store, random *rand.Rand) *limiter.Limiter {
	return storetest.Must(limiter.New(store, limiter.Options{IntN: random.IntN, Logger: slog.New(slog.DiscardHandler)}))
}
