package limiter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// far is a remote store whose Take lasts 3 ms and whose Refund lasts 2 ms.
type far struct{ limiter.Store }

func (f far) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	time.Sleep(3 * time.Millisecond) // fake clock of synctest
	return f.Store.Take(ctx, now, s, charges, results)
}

func (f far) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	time.Sleep(2 * time.Millisecond)
	return f.Store.Settle(ctx, now, s, charges, results, elapsed)
}

// A decision reports the time that it waited for the store, and its refunds. Concurrent calls count once.
func TestDecision_store(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storetest.Must(limiter.New(far{storetest.Must(memstore.New(memstore.Options{}))}, limiter.Options{CacheTTL: -1}))
		fast := limit(t, limiter.Limit{Name: "fast", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Second}})
		mine := limiter.Charge{Subject: user, Limit: perMinute(t, "mine", 10), Cost: 1}
		theirs := limiter.Charge{Subject: limiter.Global(), Limit: perMinute(t, "theirs", 1), Cost: 1}
		bucket := limiter.Charge{Subject: limiter.User("bob"), Limit: fast, Cost: 1}
		synced := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "synced", Rate: algo.Rate{Requests: 9, Window: time.Minute},
			Spread: limiter.Spread{Sync: time.Second}}), Cost: 1}
		for _, step := range []struct {
			name    string
			charges []limiter.Charge
			took    time.Duration
			refunds limiter.Refunds
		}{
			{"one", []limiter.Charge{mine}, 3 * time.Millisecond, limiter.Refunds{}},
			{"two at once", []limiter.Charge{mine, theirs}, 3 * time.Millisecond, limiter.Refunds{}},
			{"one refuses", []limiter.Charge{mine, theirs}, 5 * time.Millisecond, limiter.Refunds{Given: 1}},
			{"a counter that synchronizes", []limiter.Charge{synced}, 3 * time.Millisecond, limiter.Refunds{}},
			{"a counter with a known state", []limiter.Charge{synced}, 0, limiter.Refunds{}},
		} {
			d := takeAt(t, l, noon, step.charges...)
			if d.StoreTime != step.took || d.Refunds != step.refunds {
				t.Errorf("%s: got %s and %+v, want %s and %+v", step.name, d.StoreTime, d.Refunds, step.took, step.refunds)
			}
		}
		// Other callers have used the bucket since the charge. The refund then leaves out the part that may have
		// leaked.
		d, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{bucket, mine})
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		takeAt(t, l, noon, bucket)
		if done := receipt.Refund(ctx, noon); done != (limiter.Refunds{Given: 1, Dropped: 1}) {
			t.Errorf("got %+v, want the window's charge refunded and the bucket's refund dropped", done)
		}
	})
}

// A refund counts as dropped if its store call fails, or if the lease or the counter has changed since
// the charge.
func TestReceipt_Refund_dropped(t *testing.T) {
	for name, spread := range map[string]limiter.Spread{"store": {}, "lease": {Lease: 8}, "counter": {Sync: time.Second}} {
		s := &failingRefunds{Store: storetest.Must(memstore.New(memstore.Options{}))}
		l := storetest.Must(limiter.New(s, limiter.Options{}))
		c := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Hour},
			Spread: spread}), Cost: 1}
		_, receipt, err := l.TakeRefundable(ctx, noon, []limiter.Charge{c})
		if err != nil {
			t.Fatal(err)
		}
		takeAt(t, l, noon.Add(3*time.Second), c) // calls the store again
		if done := receipt.Refund(ctx, noon.Add(3*time.Second)); done != (limiter.Refunds{Dropped: 1}) {
			t.Errorf("%s: got %+v, want the refund dropped", name, done)
		}
	}
}

type failingRefunds struct{ limiter.Store }

func (*failingRefunds) Settle(context.Context, algo.Instant, limiter.Subject, []limiter.Charge, []algo.Result,
	time.Duration) (limiter.Settled, error) {
	return limiter.Settled{}, limiter.ErrUnavailable
}

// A process with a fast clock wrote a state. Only the decision that clamps this state reports the clamp.
// Peek and decisions from the denial cache do not report it. Before the clamp, an environment with a
// correct clock can use the remaining quota of the state.
func TestDecision_Clamped(t *testing.T) {
	for name, store := range map[string]limiter.Store{"here": storetest.Must(memstore.New(memstore.Options{})), "shared": newRemote()} {
		for _, more := range []limiter.Charge{{}, {Subject: user, Limit: perMinute(t, "b", 9), Cost: 1}} {
			c := []limiter.Charge{{Subject: user, Limit: perMinute(t, "a", 5), Cost: 1}, more}
			if more.Limit == nil {
				c = c[:1]
			}
			l := storetest.Must(limiter.New(store, limiter.Options{}))
			takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon.Add(time.Hour), c...)
			if d := mustPeek(t, l, noon, c[0]); d.Clamped != 0 || !d.Allowed {
				t.Errorf("%s: Peek before the clamp: got %+v, want an admission and 0 clamped", name, d)
			}
			for i := range 6 {
				if d := takeAt(t, l, noon.Add(time.Duration(2+i)*time.Second), c...); d.Clamped != 0 || d.Allowed != (i < 4) {
					t.Errorf("%s: request %d of 4 remaining: got %+v, want allowed %t and 0 clamped", name, i+1, d, i < 4)
				}
			}
			clamped := noon.Add(2*time.Second + 2*time.Minute + 5*time.Second)
			if d := mustPeek(t, l, clamped, c[0]); d.Clamped != 0 || d.Allowed {
				t.Errorf("%s: Peek at the time of the clamp: got %+v, want a refusal and 0 clamped", name, d)
			}
			clamped = clamped.Add(2 * time.Second) // the entry of the denial cache has expired
			if d := takeAt(t, l, clamped, c...); d.Clamped != len(c) || d.Allowed {
				t.Errorf("%s: got %d clamped, want %d and a refusal: %+v", name, d.Clamped, len(c), d)
			}
			for range 3 {
				if d := takeAt(t, l, clamped, c...); d.Clamped != 0 || d.Allowed {
					t.Errorf("%s: second time: got %d clamped, want 0: %+v", name, d.Clamped, d)
				}
			}
			if err := l.Reset(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// If the store clamps a state in a synchronization, the decision reports the clamp.
func TestDecision_Clamped_counter(t *testing.T) {
	store := newRemote()
	l := storetest.Must(limiter.New(store, limiter.Options{}))
	c := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 5, Window: time.Minute},
		Spread: limiter.Spread{Sync: time.Second}}), Cost: 1}
	takeAt(t, l, noon, c)
	takeAt(t, storetest.Must(limiter.New(store, limiter.Options{})), noon.Add(time.Hour), limiter.Charge{Subject: user,
		Limit: perMinute(t, "a", 5), Cost: 1})
	takeAt(t, l, noon.Add(2*time.Second), c) // the counter sends the charge of noon, and finds a state in the future
	takeAt(t, l, noon.Add(3*time.Minute), c)
	if d := takeAt(t, l, noon.Add(4*time.Minute), c); d.Clamped != 1 || d.StoreCalls != 1 {
		t.Errorf("got %d clamped, want 1: %+v", d.Clamped, d)
	}
}
