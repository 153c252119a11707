package limiter_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
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

// afterOutage returns a Limiter that has a count of an outage for the charge, and its store, which works again.
func afterOutage(t *testing.T, c limiter.Charge) (*limiter.Limiter, *remote) {
	t.Helper()
	store := newRemote()
	store.fail = map[limiter.Subject]error{c.Subject: limiter.ErrUnavailable}
	l := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
	if d := take(t, l, c); !d.Allowed || d.Reason == limiter.ReasonNone {
		t.Fatalf("got %+v, want a degraded admission", d)
	}
	store.fail = map[limiter.Subject]error{}
	return l, store
}

// While a process has counts of an outage, a new lease counts there as a whole. A settlement at the unchanged cost, or
// the refusal by another subject, returns nothing of it. So the process admits at most the limit, although the store
// loses its counts.
func TestOutage_leases(t *testing.T) {
	hourly := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Hour},
		Spread: limiter.Spread{Lease: 8}})
	none := limit(t, limiter.Limit{Name: "none", Rate: algo.Rate{Requests: 1, Window: time.Hour}})
	c, theirs := limiter.Charge{Subject: user, Limit: hourly, Cost: 1}, limiter.Charge{Subject: other, Limit: none, Cost: 1}
	for name, refused := range map[string]bool{"settlement": false, "refusal by another subject": true} {
		t.Run(name, func(t *testing.T) {
			l, store := afterOutage(t, c)
			admitted := 1
			for i := range 400 {
				now := noon.Add(time.Duration(i) * 10 * time.Millisecond)
				if i == 60 {
					store.Store = storetest.Must(memstore.New(memstore.Options{})) // the store loses its counts
				}
				if refused && i%3 == 0 {
					if takeAt(t, l, now, c, theirs).Allowed {
						admitted++
					}
					continue
				}
				d, receipt, err := l.TakeRefundable(ctx, now, []limiter.Charge{c})
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted++
				}
				receipt.Settle(ctx, now, func(c limiter.Charge) int64 { return c.Cost })
			}
			if admitted != 100 {
				t.Errorf("got %d admitted, want 100", admitted)
			}
		})
	}
}
