package limiter_test

import (
	"log/slog"
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
	for _, spread := range []limiter.Spread{{Sync: 2 * time.Second}, {Lease: 5}} {
		synctest.Test(t, func(t *testing.T) {
			store := &slow{remote: newRemote(), in: make(chan struct{}, 9), out: make(chan struct{})}
			e := storetest.Must(limiter.New(store, limiter.Options{Timeout: 500 * time.Millisecond}))
			under := func(requests int64) limiter.Charge {
				return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: requests,
					Rate: algo.Rate{Requests: requests, Window: time.Hour}, Spread: spread})}
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
			if d := mustPeek(t, e, noon, after); d.Capacity != 20 || d.Remaining > 17 {
				t.Errorf("%+v: got %d of %d remaining, want at most 17 of 20", spread, d.Remaining, d.Capacity)
			}
		})
	}
}

// A request charges a limit with sync_ms on two subjects. If the counter of one subject cannot synchronize, the counter
// of the other still decides its charge. So this process never admits more than the limit.
func TestSpread_sync_otherSubject(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	l := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Hour}, Spread: limiter.Spread{Sync: 2 * time.Second}})
	mine, other := limiter.Charge{Subject: user, Limit: l, Cost: 1}, limiter.Charge{Subject: limiter.User("other"), Limit: l, Cost: 1}
	take(t, e, mine)
	store.fail = map[limiter.Subject]error{other.Subject: limiter.ErrUnavailable}
	admitted := 1
	for range 12 {
		if take(t, e, mine, other).Allowed {
			admitted++
		}
	}
	if admitted != 10 {
		t.Errorf("got %d admitted, want 10", admitted)
	}
}

// Requests with a leased limit and a limit with sync_ms wait for the lease. A request that has waited too often charges
// the lease to the store, but the counter still decides the other limit.
func TestSpread_sync_leaseBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := storetest.Must(limiter.New(&partition{remote: newRemote(), takes: time.Millisecond}, limiter.Options{}))
		rate := algo.Rate{Requests: 10, Window: time.Hour}
		leased := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Hour}, Spread: limiter.Spread{Lease: 8}})
		synced := limit(t, limiter.Limit{Name: "b", Rate: rate, Spread: limiter.Spread{Sync: 2 * time.Second}})
		charges := []limiter.Charge{{Subject: user, Limit: leased, Cost: 7}, {Subject: user, Limit: synced, Cost: 1}}
		admitted := 0
		for range 3 {
			for _, d := range oneByOne(10, func(int) limiter.Decision { return takeAt(t, e, noon, charges...) }) {
				if d.Allowed {
					admitted++
				}
			}
		}
		if admitted != 10 {
			t.Errorf("got %d admitted, want 10", admitted)
		}
	})
}
