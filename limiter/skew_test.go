package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

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
