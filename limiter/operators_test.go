package limiter_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

func usageOf(t *testing.T, l *limiter.Limiter, now time.Time, c limiter.Charge) limiter.Usage {
	t.Helper()
	s, err := l.Inspect(ctx, now, []limiter.Charge{c})
	if err != nil || len(s) != 1 || s[0].Charge != c {
		t.Fatalf("got %+v, error %v; want one usage, of charge %+v", s, err, c)
	}
	return s[0]
}

// For every algorithm and Spread, Inspect is exact: the limit admits Remaining requests at once, and one
// more request after RetryAfter, but not a nanosecond earlier.
func TestLimiter_Inspect(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket, algo.LeakyBucket, algo.SlidingLog} {
		for _, spread := range []limiter.Spread{{}, {Shards: 2}} {
			if algorithm == algo.LeakyBucket && spread.Shards > 0 {
				continue
			}
			for _, shadow := range []bool{false, true} {
				for _, store := range []limiter.Store{newRemote(), storetest.Must(memstore.New(memstore.Options{}))} {
					l := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1}))
					c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
						Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: 10, Window: time.Minute}, Spread: spread, Shadow: shadow})}
					const capacity = int64(10)
					if s := usageOf(t, l, noon, c); s.Known || s.Capacity != capacity || s.Remaining != capacity || s.RetryAfter != 0 ||
						s.ResetAfter != 0 {
						t.Fatalf("%s %+v shadow %t %T: never charged: got %+v, want full quota", algorithm, spread, shadow, store, s)
					}
					passes := func(now time.Time) bool { d := takeAt(t, l, now, c); return d.Allowed && d.Shadowed == nil }
					for left := capacity; left > 0; left-- {
						if s := usageOf(t, l, noon, c); s.Remaining != left || s.RetryAfter != 0 {
							t.Fatalf("%s %+v shadow %t %T: got %+v, want %d remaining", algorithm, spread, shadow, store, s, left)
						}
						if !passes(noon) {
							t.Fatalf("%s %+v shadow %t %T: got a refusal with %d remaining, want an admission", algorithm, spread, shadow, store, left)
						}
					}
					s := usageOf(t, l, noon, c)
					if !s.Known || s.Remaining != 0 || s.RetryAfter <= 0 || s.ResetAfter < s.RetryAfter {
						t.Fatalf("%s %+v shadow %t %T: used up: got %+v, want 0 remaining and a wait", algorithm, spread, shadow, store, s)
					}
					if passes(noon.Add(s.RetryAfter-1)) || !passes(noon.Add(s.RetryAfter)) {
						t.Errorf("%s %+v shadow %t %T: got RetryAfter %s, want the exact time of the next admission", algorithm, spread, shadow, store,
							s.RetryAfter)
					}
				}
			}
		}
	}
}

// Share is what a region has of a limit that regions share: its base share, and what moved to it.
func TestLimiter_Inspect_regions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		used := func() (shares, used [3]int64) {
			t.Helper()
			for i := range shares {
				s := usageOf(t, f.limiters[i], noon, limiter.Charge{Subject: limiter.User("42"), Limit: f.limits[i], Cost: 1})
				shares[i], used[i] = s.Share, s.Share-s.Remaining
				if s.Capacity != 300 {
					t.Errorf("region %d: got %+v, want the capacity of the whole limit", i, s)
				}
			}
			return shares, used
		}
		if shares, used := used(); shares != [3]int64{100, 100, 100} || used != [3]int64{} {
			t.Errorf("unused: got shares %v with %v used, want three unused shares of 100", shares, used)
		}
		f.take(t, 0, noon, 50)
		if shares, used := used(); shares != [3]int64{100, 100, 100} || used != [3]int64{50, 0, 0} {
			t.Errorf("half of a share used: got shares %v with %v used, want 50 of 100 in the first region", shares, used)
		}
		for range 70 {
			f.take(t, 0, noon, 1)
		}
		if shares, used := used(); shares[0] <= 100 || shares[1] >= 100 || shares[0]+shares[1]+shares[2] != 300 || used != [3]int64{120, 0, 0} {
			t.Errorf("after a transfer: got shares %v with %v used, want 300 together, and 120 used in the first region", shares, used)
		}
	})
}

// Inspect reads all limits of a subject with one call. It reports a state of a higher rules version with
// the parameters of that state.
func TestLimiter_Inspect_superseded(t *testing.T) {
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	rate := algo.Rate{Requests: 10, Window: time.Minute}
	newer := limit(t, limiter.Limit{Name: "a", Rate: rate, Version: 2})
	rate.Requests = 100
	older := limit(t, limiter.Limit{Name: "a", Rate: rate, Version: 1})
	takeAt(t, l, noon, limiter.Charge{Subject: user, Limit: newer, Cost: 4})
	if s := usageOf(t, l, noon, limiter.Charge{Subject: user, Limit: older, Cost: 7}); !s.Superseded || s.Capacity != 10 || s.Remaining != 6 ||
		s.RetryAfter == 0 {
		t.Errorf("under older rules: got %+v, want 6 of 10 remaining, superseded, and a wait", s)
	}
	if s := usageOf(t, l, noon, limiter.Charge{Subject: user, Limit: newer, Cost: 11}); s.Superseded || s.RetryAfter != algo.Never {
		t.Errorf("a cost above the capacity: got %+v, want RetryAfter Never", s)
	}
	if _, err := l.Inspect(ctx, noon, []limiter.Charge{{Limit: newer}}); !errors.Is(err, limiter.ErrInvalidCharge) {
		t.Errorf("no subject: got error %v, want %v", err, limiter.ErrInvalidCharge)
	}
}

// A reset deletes the counts in the fallback too.
func TestLimiter_Reset_fallback(t *testing.T) {
	for _, spread := range []limiter.Spread{{}, {Shards: 2}, {Lease: 2}} {
		r := newRemote()
		r.fail = map[limiter.Subject]error{}
		l := surviving(r)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
			Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Spread: spread, OnError: limiter.OnErrorLocal, LocalProcesses: 5})}
		for _, s := range c.Limit.Subjects(user) {
			r.fail[s] = limiter.ErrUnavailable
		}
		for range 2 {
			for i, want := range []string{"degraded", "degraded", "refused degraded"} {
				if got := outcome(take(t, l, c)); got != want {
					t.Errorf("%+v: request %d: got %s, want %s", spread, i+1, got, want)
				}
			}
			if err := l.Reset(ctx, []limiter.Charge{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
