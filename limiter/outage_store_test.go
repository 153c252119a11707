package limiter_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// outage is a remote store that fails on demand. It can lose the answer of a settlement, and can delay calls and answers.
type outage struct {
	limiter.Store
	storetest.Patient
	takes, settles error         // what Take and Settle return; nil means that the store works
	lost           bool          // the store makes a settlement although it returns settles
	settling       time.Duration // time before a settlement reaches the store
	answering      time.Duration // time before a settlement is answered
	taking         time.Duration // time before a charge is answered
	delays         bool          // a settlement that fails is made by the function late
	late           func()
}

func newOutage() *outage { return &outage{Store: storetest.Must(memstore.New(memstore.Options{}))} }

// fails makes all calls fail, or none.
func (o *outage) fails(fails bool) {
	o.takes, o.settles = nil, nil
	if fails {
		o.takes, o.settles = errRefused, errRefused
	}
}

func (o *outage) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	if o.takes != nil {
		return false, o.takes
	}
	taken, err := o.Store.Take(ctx, now, subject, charges, results)
	if o.taking > 0 {
		time.Sleep(o.taking)
	}
	return taken, err
}

func (o *outage) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if o.settling > 0 {
		time.Sleep(o.settling)
	}
	if o.settles != nil && o.delays {
		o.late = func() { _, _ = o.Store.Settle(ctx, now, subject, charges, results, elapsed) }
	}
	if o.settles != nil && !o.lost {
		return limiter.Settled{}, o.settles
	}
	settled, err := o.Store.Settle(ctx, now, subject, charges, results, elapsed)
	if o.answering > 0 {
		time.Sleep(o.answering)
	}
	if o.settles != nil {
		return limiter.Settled{}, o.settles
	}
	return settled, err
}

func quiet(store limiter.Store) *limiter.Limiter {
	return storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
}

// admissions returns how many of n requests are admitted at the time now.
func admissions(t *testing.T, l *limiter.Limiter, n int, now time.Time, charges ...limiter.Charge) (count int) {
	t.Helper()
	for range n {
		if takeAt(t, l, now, charges...).Allowed {
			count++
		}
	}
	return count
}

// loses makes the store lose everything, as FLUSHALL does.
func (o *outage) loses() { o.Store = storetest.Must(memstore.New(memstore.Options{})) }

// The store loses its counts after an outage. An environment keeps what it counts by itself, so it alone admits at most
// the limit. Once the store has counted as much, the environment counts nothing by itself, and the loss is complete.
func TestOutage_loses(t *testing.T) {
	hour := algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Hour}
	for name, stored := range map[string]int{"more in the environment": 30, "as much in the store": 100} {
		store := newOutage()
		l, elsewhere, c := quiet(store), quiet(store), limiter.Charge{Subject: user, Cost: 1,
			Limit: limit(t, limiter.Limit{Name: "a", Rate: hour})}
		store.fails(true)
		during := admissions(t, l, 50, noon, c)
		store.fails(false)
		others := admissions(t, elsewhere, stored-1, noon, c)
		after := admissions(t, l, 1, noon, c)
		store.loses()
		now := noon.Add(2 * time.Second) // the denial cache has expired
		after += admissions(t, l, 200, now, c)
		want := 100
		if stored == 100 {
			want = 151
		}
		if during != 50 || others != stored-1 || during+after != want {
			t.Errorf("%s: got %d admitted in the outage, %d elsewhere and %d in all, want 50, %d and %d", name, during, others, during+after,
				stored-1, want)
		}
	}
}
