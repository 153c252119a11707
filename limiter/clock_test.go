package limiter_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// For a Local store, Now returns the right time, both when it reads the wall clock and when it does not.
func TestLimiter_Now_local(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	_ = l.Now() // reads the real clock, outside synctest
	synctest.Test(t, func(t *testing.T) {
		// The last pause ends in another second.
		for _, pause := range []time.Duration{0, time.Nanosecond, time.Millisecond, 9 * time.Millisecond, time.Hour, time.Millisecond,
			985 * time.Millisecond, 5 * time.Millisecond} {
			time.Sleep(pause)
			if got, want := l.Now(), time.Now(); !got.Equal(want) {
				t.Errorf("after %s: got %s, want %s", pause, got, want)
			}
		}
	})
}

// A wall clock that is set back neither refuses the requests of an outage, nor those after it on limits of which counts
// remain.
func TestLimiter_Take_outageClockBack(t *testing.T) {
	down := true
	store := newFated(func(_ limiter.Subject, _ uint64, call func()) error {
		if down {
			return errRefused
		}
		call()
		return nil
	})
	l := storetest.Must(limiter.New(&store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	bucket := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour, Burst: 60})
	for i, c := range []struct {
		down bool
		back time.Duration
		cost int64
		want string
	}{
		{true, 0, 30, "degraded"}, {true, 10 * time.Minute, 20, "degraded"}, {false, 10 * time.Minute, 10, "allowed"},
		{false, 10 * time.Minute, 1, "refused degraded"}, {true, 10 * time.Minute, 1, "refused degraded"},
	} {
		down = c.down
		d := takeAt(t, l, time.Now().Add(-c.back), limiter.Charge{Subject: limiter.User("a"), Limit: bucket, Cost: c.cost})
		if got := outcome(d); got != c.want || d.RetryAfter > time.Minute {
			t.Errorf("request %d: got %s and a wait of %s, want %s and at most a minute", i, got, d.RetryAfter, c.want)
		}
	}
}

// A monthly quota makes the same decisions with and without a lease. The test
// covers the denial cache, an outage, and the end of the period, 28 February 2026.
func TestCalendar(t *testing.T) {
	rate := algo.Rate{Requests: 10, Calendar: algo.Calendar{Period: algo.Month, Zone: "Europe/Berlin", Anchor: "31"}}
	end := time.Date(2026, 2, 27, 23, 0, 0, 0, time.UTC) // 28 February in Berlin
	now := end.Add(-time.Hour)
	for name, spread := range map[string]limiter.Spread{"none": {}, "lease": {Lease: 5}} {
		t.Run(name, func(t *testing.T) {
			r := newRemote()
			l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
			c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "month", Rate: rate, Spread: spread})}
			if got := c.Limit.WindowAt(now); got != 28*24*time.Hour {
				t.Errorf("window: got %s, want 28 days", got)
			}
			for i := range 12 {
				r.fail = nil
				if i >= 4 && i < 6 {
					r.fail = map[limiter.Subject]error{user: errHangs}
				}
				d := takeAt(t, l, now.Add(time.Duration(i)*300*time.Millisecond), c)
				if d.Allowed != (i < 10) {
					t.Errorf("request %d: got %+v, want the first ten allowed", i, d)
				}
				if d.Allowed && d.ResetAfter != end.Sub(d.At) || !d.Allowed && d.RetryAfter != end.Sub(d.At) {
					t.Errorf("request %d: got %+v, want a reset in %s", i, d, end.Sub(d.At))
				}
			}
			if d := takeAt(t, l, end.Add(-1), c); d.Allowed {
				t.Errorf("1 ns before the end: got %+v, want a refusal", d)
			}
			if d := takeAt(t, l, end, c); !d.Allowed || d.Remaining < 9 || c.Limit.WindowAt(end) != 31*24*time.Hour-time.Hour {
				t.Errorf("at the end: got %+v and a window of %s, want a whole quota and 31 days less an hour", d, c.Limit.WindowAt(end))
			}
		})
	}
}
