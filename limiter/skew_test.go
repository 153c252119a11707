package limiter_test

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Of two environments that share a store, the clock of one is 70 s behind: together they admit
// no more than the bound says, and not a quota each time that the one finds the other's state.
func TestLimiter_slowClock(t *testing.T) {
	const skew, step = 70 * time.Second, 100 * time.Millisecond
	store, who := newRemote(), limiter.User("u")
	right, slow := storetest.Must(limiter.New(store, limiter.Options{})), storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: who, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Minute}}), Cost: 1}
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
	if worst > 316 || len(admitted) < 480 { // 100 (1 + (60 s + 70 s) / 60 s), and about 100 a minute
		t.Errorf("%d admitted in the worst minute and %d in five, want at most 316, and 480", worst, len(admitted))
	}
}

// An environment whose clock was an hour ahead for one request holds the others up for two
// horizons and the rest of a window, not for the hour.
func TestLimiter_fastClock(t *testing.T) {
	store, who := newRemote(), limiter.User("u")
	fast, right := storetest.Must(limiter.New(store, limiter.Options{})), storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: who, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Minute}}), Cost: 1}
	takeAt(t, fast, noon.Add(time.Hour), c)
	admitted := 0
	for at := time.Duration(0); at < 10*time.Minute; at += 100 * time.Millisecond {
		if takeAt(t, right, noon.Add(at), c).Allowed {
			admitted++
		}
	}
	if admitted < 600 { // 99 at once, none for three minutes, and then 100 a minute
		t.Errorf("%d admitted in ten minutes, want 600 at least", admitted)
	}
}
