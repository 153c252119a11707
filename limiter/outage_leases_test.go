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
			if admitted > 100 {
				t.Errorf("got %d admitted, want at most 100", admitted)
			}
		})
	}
}
