package limiter_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// admitted returns how many of n requests are allowed at the time now.
func admitted(t *testing.T, l *limiter.Limiter, now time.Time, c limiter.Charge, n int) (allowed int) {
	t.Helper()
	for range n {
		if takeAt(t, l, now, c).Allowed {
			allowed++
		}
	}
	return allowed
}

// An outage begins after a process has read new rules. The process counts on from the newest state that it saw, and not
// from the last state under the old rules.
func TestOutage_newRules(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	charge := func(version int64) limiter.Charge {
		return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: version,
			Rate: algo.Rate{Requests: 10 * version, Window: time.Hour}})}
	}
	admitted(t, l, noon, charge(1), 1)
	newer := charge(2)
	before := admitted(t, l, noon, newer, 14)
	store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	if n := admitted(t, l, noon, newer, 30); before != 14 || n != 5 {
		t.Errorf("got %d and %d admissions, want 14 and 5: the limit of 20 without the 15 before the outage", before, n)
	}
}

// Between two outages, the store decides by newer rules than this process. The process still has its counts of the
// first outage in the second one.
func TestOutage_newerRules(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	charge := func(version int64, rate algo.Rate) limiter.Charge {
		rate.Algorithm = algo.FixedWindow
		return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: version, Rate: rate})}
	}
	ours, newer := charge(1, algo.Rate{Requests: 10, Window: time.Hour}), charge(2, algo.Rate{Requests: 10, Window: time.Minute})
	down := map[limiter.Subject]error{user: limiter.ErrUnavailable}
	store.fail = down
	first := admitted(t, l, noon, ours, 6)
	store.fail = nil
	takeAt(t, over(store, 0), noon.Add(time.Minute), newer)
	between := admitted(t, l, noon.Add(2*time.Minute), ours, 1)
	store.fail = down
	if second := admitted(t, l, noon.Add(2*time.Minute), ours, 10); first != 6 || between != 1 || second != 3 {
		t.Errorf("got %d, %d and %d admissions, want 6, 1 and 3", first, between, second)
	}
}
