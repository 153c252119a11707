package limiter_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
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

// Two environments share a store, and the clock of one is 70 s behind. Together they admit at most the
// bound. The slow environment does not get a whole quota each time that it reads a state of the other
// environment.
func TestLimiter_slowClock(t *testing.T) {
	const skew, step = 70 * time.Second, 100 * time.Millisecond
	store, caller := newRemote(), limiter.User("u")
	right, slow := storetest.Must(limiter.New(store, limiter.Options{})), storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: caller, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Minute}}),
		Cost: 1}
	var admitted []time.Duration
	for at := time.Duration(0); at < 5*time.Minute; at += step {
		for l, now := range map[*limiter.Limiter]time.Time{right: noon.Add(at), slow: noon.Add(at - skew)} {
			if takeAt(t, l, now, c).Allowed {
				admitted = append(admitted, at)
			}
		}
	}
	first, worst := 0, 0
	for last := range admitted {
		for admitted[last]-admitted[first] >= time.Minute {
			first++
		}
		worst = max(worst, last-first+1)
	}
	// Bound of a minute: 100*(1 + (60 s + 70 s)/60 s) = 316. The five minutes must admit about 100 a minute, so at least 480.
	if worst > 316 || len(admitted) < 480 {
		t.Errorf("got %d admitted in the worst minute and %d in five, want at most 316, and at least 480", worst, len(admitted))
	}
}

// For one request, the clock of an environment is an hour ahead. The other environments are then blocked for two
// horizons and the rest of a window, and not for the hour.
func TestLimiter_fastClock(t *testing.T) {
	store, caller := newRemote(), limiter.User("u")
	fast, right := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1})),
		storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1}))
	c := limiter.Charge{Subject: caller, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Minute}}),
		Cost: 1}
	takeAt(t, fast, noon.Add(time.Hour), c)
	admitted := 0
	for at := time.Duration(0); at < 10*time.Minute; at += 100 * time.Millisecond {
		if takeAt(t, right, noon.Add(at), c).Allowed {
			admitted++
		}
	}
	// 99 requests are admitted at once, none in the next three minutes, and then 100 a minute.
	if admitted < 600 {
		t.Errorf("got %d admitted in ten minutes, want at least 600", admitted)
	}
}

// estimated is a store that estimates how far its environment's clock is ahead.
type estimated struct {
	limiter.Store
	ahead, uncertainty time.Duration
}

func (e estimated) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	return e.ahead, e.uncertainty, true
}

// Now corrects the clock only if the skew is known to within 10 ms. Also the store inside another one estimates it.
func TestLimiter_Now(t *testing.T) {
	for _, c := range []struct{ ahead, uncertainty, want time.Duration }{
		{time.Hour, 10 * time.Millisecond, time.Hour}, {-time.Hour, time.Millisecond, -time.Hour}, {time.Hour, 11 * time.Millisecond, 0},
	} {
		store := storetest.Must(resilient.New(estimated{newRemote(), c.ahead, c.uncertainty}, resilient.Options{}))
		l := storetest.Must(limiter.New(store, limiter.Options{}))
		before := time.Now()
		now := l.Now()
		if off := now.Add(c.want); off.Before(before) || off.After(time.Now()) {
			t.Errorf("%+v: got a correction by %s, want about %s", c, before.Sub(now), c.want)
		}
	}
}

// The clock of an environment is 300 ms ahead, which is more than the depth of the bucket. The other
// environments then get none of 1,000 requests. If Now corrects the clock to within 10 ms, they get their
// share.
func TestLimiter_fastBucket(t *testing.T) {
	for ahead, want := range map[time.Duration][2]int{300 * time.Millisecond: {0, 0}, 10 * time.Millisecond: {50, 1000},
		time.Millisecond: {300, 1000}} {
		store, caller := newRemote(), limiter.User("u")
		fast, right := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1})),
			storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1}))
		c := limiter.Charge{Subject: caller, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 100,
			Window: time.Second, Burst: 20}}), Cost: 1}
		for i := range 20 {
			takeAt(t, fast, noon.Add(ahead+time.Duration(i)), c)
		}
		admitted, at, r := 0, noon, rand.New(rand.NewPCG(1, 2))
		// Each environment gets 100 requests a second; both together may use 100 a second.
		for range 1000 {
			at = at.Add(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
			takeAt(t, fast, at.Add(ahead), c)
			at = at.Add(time.Duration(r.Int64N(int64(10 * time.Millisecond))))
			if takeAt(t, right, at, c).Allowed {
				admitted++
			}
		}
		if admitted < want[0] || admitted > want[1] {
			t.Errorf("%s ahead: the others got %d of 1,000, want %v", ahead, admitted, want)
		}
	}
}
