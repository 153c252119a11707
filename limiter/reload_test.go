package limiter_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// reloaded returns a limit of n an hour, as a new document makes it.
func reloaded(t *testing.T, version, n int64, spread limiter.Spread, o limiter.OnError, rate algo.Rate) limiter.Charge {
	t.Helper()
	rate.Requests, rate.Window = n, time.Hour
	return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: version, Rate: rate, Spread: spread, OnError: o})}
}

// New rules arrive between the last synchronization of a counter and an outage. The counter keeps its count: with the
// same numbers, with fewer and with more, and also if the limit is no longer synchronized.
func TestSpread_sync_reload_outage(t *testing.T) {
	for _, rate := range []algo.Rate{{}, {Algorithm: algo.FixedWindow}, {Algorithm: algo.TokenBucket}, {Algorithm: algo.SlidingLog}} {
		for _, o := range []limiter.OnError{limiter.OnErrorLocal, limiter.OnErrorAllow} {
			for _, after := range []int64{100, 60, 150} {
				store := newOutage()
				l := quiet(store)
				spread := limiter.Spread{Sync: time.Second}
				if n := admissions(t, l, 200, noon, reloaded(t, 1, 100, spread, o, rate)); n != 100 {
					t.Fatalf("got %d admitted before the outage, want 100", n)
				}
				now := noon.Add(time.Second)
				admissions(t, l, 1, now, reloaded(t, 1, 100, spread, o, rate)) // sends the count
				store.fails(true)
				want := max(0, after-100)
				if n := admissions(t, l, 200, now, reloaded(t, 2, after, spread, o, rate)); int64(n) != want {
					t.Errorf("%s, %s: got %d admitted under a limit of %d in the outage, want %d", rate.Algorithm, o, n, after, want)
				}
				if n := admissions(t, l, 200, now, reloaded(t, 3, after, limiter.Spread{}, o, rate)); o == limiter.OnErrorLocal && n != 0 {
					t.Errorf("%s: got %d admitted without a counter, want 0", rate.Algorithm, n)
				}
			}
		}
	}
}

// After an outage, an adaptive limit counts what this process admitted in the outage.
func TestAdaptive_outage(t *testing.T) {
	for _, processes := range []int{1, 4} {
		store, random := newOutage(), rand.New(rand.NewPCG(1, 1))
		l := drawing(store, random)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
			Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Hour}, Spread: limiter.Spread{Adaptive: true}, LocalProcesses: processes,
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

// A limit that becomes adaptive no more loses the charges since the last report, and nothing else.
func TestAdaptive_reload(t *testing.T) {
	for _, spread := range []limiter.Spread{{Adaptive: true}, {Sync: 500 * time.Millisecond}} {
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

// drawing returns a Limiter that draws its random numbers from random.
func drawing(store limiter.Store, random *rand.Rand) *limiter.Limiter {
	return storetest.Must(limiter.New(store, limiter.Options{IntN: random.IntN, Logger: slog.New(slog.DiscardHandler)}))
}
