package limiter_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

func mustTake(t *testing.T, l *limiter.Limiter, now time.Time, charge limiter.Charge) limiter.Decision {
	t.Helper()
	d, err := l.Take(ctx, now, []limiter.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Concurrent requests are admitted exactly up to the limit, while others are refunded on a window. Those on a bucket are
// not, because a bucket in use refunds only a part of a charge.
func TestLimiter_Take_concurrentRefunds(t *testing.T) {
	const capacity, workers, attempts = 1000, 8, 400
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
		charges := []limiter.Charge{{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: a, Requests: capacity,
			Window: time.Hour}}), Cost: 1}}
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range attempts {
					var d limiter.Decision
					var receipt *limiter.Receipt
					var err error
					if (w+i)%4 == 0 {
						d, receipt, err = l.TakeRefundable(ctx, noon, charges)
					} else {
						d, err = l.Take(ctx, noon, charges)
					}
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						admitted.Add(1)
						if a == algo.SlidingWindow {
							admitted.Add(-int64(receipt.Refund(ctx, noon).Given))
						}
					}
				}
			})
		}
		wg.Wait()
		for d := mustTake(t, l, noon, charges[0]); d.Allowed; d = mustTake(t, l, noon, charges[0]) {
			admitted.Add(1)
		}
		if admitted.Load() != capacity {
			t.Errorf("%s: got %d admitted, want %d", a, admitted.Load(), capacity)
		}
	}
}

// A request whose caller is known by an ID allocates no memory, whether it is allowed or refused.
func TestLimiter_Take_allocations(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow} {
		for _, requests := range []int64{1, algo.MaxRequests} {
			limit := limit(t, limiter.Limit{Name: "a", ID: limiter.NewID(string(a), fmt.Sprint(requests)), Rate: algo.Rate{Algorithm: a,
				Requests: requests, Window: time.Hour}})
			for _, id := range []string{"caller-1", "0192f0c1-2b9a-7c3e-9f41-5d2b8e6a7f10"} {
				if n := testing.AllocsPerRun(100, func() {
					if d, err := l.Take(ctx, noon, []limiter.Charge{{Subject: limiter.APIKey(id), Limit: limit, Cost: 1}}); err != nil ||
						d.Limit != limit {
						t.Errorf("got error %v, want none and a decision by the limit", err)
					}
				}); n != 0 {
					t.Errorf("%s, %d requests, %s: got %v allocations, want 0", a, requests, id, n)
				}
			}
		}
	}
}
