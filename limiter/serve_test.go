package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A request renews a lease or a counter. Meanwhile, a request under changed rules waits for the result. Then the new
// rules replace the old ones, and the counts remain.
func TestSpread_rulesChange(t *testing.T) {
	for _, spread := range []limiter.Spread{{Sync: time.Minute}, {Lease: 5}} {
		synctest.Test(t, func(t *testing.T) {
			store := &slow{remote: newRemote(), in: make(chan struct{}, 9), out: make(chan struct{})}
			e := storetest.Must(limiter.New(store, limiter.Options{Timeout: 500 * time.Millisecond}))
			under := func(requests int64) limiter.Charge {
				return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: requests, Rate: algo.Rate{Requests: requests, Window: time.Hour}, Spread: spread})}
			}
			before, after := under(10), under(20)
			done := make(chan struct{}, 3)
			for _, c := range []limiter.Charge{before, after, after} {
				go func() {
					takeAt(t, e, noon, c)
					done <- struct{}{}
				}()
				synctest.Wait()
			}
			if n := len(store.in); n != 1 {
				t.Errorf("%+v: got %d store calls at once, want one", spread, n)
			}
			close(store.out)
			for range 3 {
				<-done
			}
			if d := mustPeek(t, e, noon, after); d.Capacity != 20 || d.Remaining != 17 && spread.Sync > 0 {
				t.Errorf("%+v: got %d of %d remaining, want 17 of 20", spread, d.Remaining, d.Capacity)
			}
		})
	}
}
