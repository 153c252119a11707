package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Concurrent returns a limit of n requests in flight, each for at most a minute.
func concurrent(tb testing.TB, n int64) *limiter.Limit {
	return limit(tb, limiter.Limit{Name: "exports", Rate: algo.Rate{Requests: n, Window: time.Minute},
		Count: limiter.Count{Of: limiter.CountConcurrent}})
}

func hold(t *testing.T, l *limiter.Limiter, now time.Time, charges ...limiter.Charge) (limiter.Decision, *limiter.Receipt) {
	t.Helper()
	d, receipt, err := l.TakeRefundable(ctx, now, charges)
	if err != nil {
		t.Fatal(err)
	}
	return d, receipt
}

func release(t *testing.T, r *limiter.Receipt, now time.Time) {
	t.Helper()
	if s := r.Settle(ctx, now, func(limiter.Charge) int64 { return 0 }); s.Lost > 0 || s.Refunds.Given == 0 {
		t.Errorf("release: got %+v, want a refund", s)
	}
}

// A concurrent limit has no algorithm of the caller, no Spread and at most algo.MaxSlots slots. A
// charge takes one slot and is not forced.
func TestCountConcurrent_mistakes(t *testing.T) {
	good := limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Count: limiter.Count{Of: limiter.CountConcurrent}}
	for _, c := range []struct {
		field  string
		change func(*limiter.Limit)
	}{
		{"algorithm", func(l *limiter.Limit) { l.Rate.Algorithm = algo.TokenBucket }},
		{"algorithm", func(l *limiter.Limit) { l.Count, l.Rate.Algorithm = limiter.Count{}, algo.Concurrent }},
		{"requests", func(l *limiter.Limit) { l.Rate.Requests = algo.MaxSlots + 1 }},
		{"burst", func(l *limiter.Limit) { l.Rate.Burst = 5 }},
		{"window", func(l *limiter.Limit) { l.Rate.Window = 0 }},
		{"period", func(l *limiter.Limit) { l.Rate.Window, l.Rate.Calendar.Period = 0, algo.Day }},
		{"count", func(l *limiter.Limit) { l.Spread.Lease = 2 }},
		{"count", func(l *limiter.Limit) { l.Spread.Shards = 2 }},
		{"count", func(l *limiter.Limit) { l.Spread.Sync = time.Second }},
	} {
		l := good
		c.change(&l)
		_, err := limiter.NewLimit(l)
		if mistake, ok := errors.AsType[*algo.FieldError](err); !ok || mistake.Field != c.field {
			t.Errorf("%s: got %v, want an error of this field", c.field, err)
		}
	}
	l := storetest.Must(limiter.New(newRemote(), limiter.Options{}))
	for _, charge := range []limiter.Charge{{Subject: user, Limit: limit(t, good), Cost: 2}, {Subject: user, Limit: limit(t, good), Cost: 1,
		Force: true}} {
		if _, err := l.Take(ctx, noon, []limiter.Charge{charge}); !errors.Is(err, limiter.ErrInvalidCharge) {
			t.Errorf("cost %d, force %t: got %v, want %v", charge.Cost, charge.Force, err, limiter.ErrInvalidCharge)
		}
	}
}

// The denial cache refuses for at most 100 ms, and never after the process itself released a slot. RetryAfter is 1 to
// 3 seconds.
func TestCountConcurrent(t *testing.T) {
	store := newRemote()
	l, exports := storetest.Must(limiter.New(store, limiter.Options{})), limiter.Charge{Subject: user, Limit: concurrent(t, 2), Cost: 1}
	_, first := hold(t, l, noon, exports)
	hold(t, l, noon.Add(10*time.Second), exports)
	for _, c := range []struct {
		at    time.Duration // time after noon
		cache bool
		wait  time.Duration
	}{
		{20 * time.Second, false, 3 * time.Second},
		{20*time.Second + 100*time.Millisecond, true, 3 * time.Second},
		{20*time.Second + 101*time.Millisecond, false, 3 * time.Second},
		{21 * time.Second, false, 3 * time.Second},
		{58 * time.Second, false, 2 * time.Second},
		{59*time.Second + 500*time.Millisecond, false, time.Second},
	} {
		d := takeAt(t, l, noon.Add(c.at), exports)
		if d.Allowed || d.FromCache != c.cache || d.RetryAfter != c.wait {
			t.Errorf("after %s: got %+v, want a refusal with a wait of %s, from the cache %t", c.at, d, c.wait, c.cache)
		}
	}
	release(t, first, noon.Add(59*time.Second+500*time.Millisecond))
	if d := takeAt(t, l, noon.Add(59*time.Second+500*time.Millisecond), exports); !d.Allowed {
		t.Errorf("after a release: got %+v, want an admission", d)
	}
	if d := takeAt(t, l, noon.Add(75*time.Second), exports); !d.Allowed {
		t.Errorf("after the expiry of a slot: got %+v, want an admission", d)
	}
}

// Many goroutines of two processes take and release slots of one subject. Each request also charges
// another limit. The number of running requests never exceeds the limit, and all slots are free at the
// end.
func TestCountConcurrent_inFlight(t *testing.T) {
	const n, callers, rounds = 7, 64, 20
	store := newRemote()
	processes := []*limiter.Limiter{storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1})),
		storetest.Must(limiter.New(store, limiter.Options{}))}
	charges := []limiter.Charge{{Subject: user, Limit: concurrent(t, n), Cost: 1}, {Subject: user, Limit: perMinute(t, "a", 1e6), Cost: 1}}
	var running, admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range rounds {
				d, receipt := hold(t, processes[i%2], noon, charges...)
				if !d.Allowed {
					continue
				}
				admitted.Add(1)
				if now := running.Add(1); now > n {
					t.Errorf("got %d in flight, want at most %d", now, n)
				}
				running.Add(-1)
				release(t, receipt, noon)
			}
		})
	}
	wg.Wait()
	for i := range int64(n) {
		if d, _ := hold(t, processes[0], noon, charges[0]); !d.Allowed || d.Remaining != n-1-i {
			t.Errorf("slot %d after %d releases: got %+v, want it admitted", i+1, admitted.Load(), d)
		}
	}
	if d, _ := hold(t, processes[0], noon, charges[0]); d.Allowed {
		t.Errorf("slot %d: got %+v, want a refusal", n+1, d)
	}
}

// In an outage, each process enforces a concurrent limit by itself, and a release frees a slot.
func TestCountConcurrent_outage(t *testing.T) {
	store := newRemote()
	l, exports := surviving(store), limiter.Charge{Subject: user, Limit: concurrent(t, 2), Cost: 1}
	store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	_, first := hold(t, l, noon, exports)
	hold(t, l, noon, exports)
	if d := takeAt(t, l, noon, exports); d.Allowed || d.Reason != limiter.ReasonUnavailable {
		t.Errorf("a third request in an outage: got %+v, want a refusal", d)
	}
	release(t, first, noon)
	if d := takeAt(t, l, noon, exports); !d.Allowed {
		t.Errorf("after a release in an outage: got %+v, want an admission", d)
	}
}

// After an outage, no slot of the store equals a slot of the outage, not even in the same millisecond. So this
// process alone never admits more requests than the limit.
func TestCountConcurrent_outageEnds(t *testing.T) {
	store := newRemote()
	l, exports, now := surviving(store), limiter.Charge{Subject: user, Limit: concurrent(t, 8), Cost: 1}, noon.Add(123)
	hold(t, surviving(store), now, exports)
	store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	admitted := admissions(t, l, 2, now, exports)
	store.fail = nil
	admitted += admissions(t, l, 9, now, exports)
	if admitted != 8 {
		t.Errorf("got %d requests of this process admitted, want 8", admitted)
	}
}

// A request that ends after the beginning of an outage frees its slot in this process, although the store
// does not get the release.
func TestCountConcurrent_outageBegins(t *testing.T) {
	for _, asked := range []bool{false, true} { // whether a request is decided in the outage before the release
		store := newRemote()
		l, exports := surviving(store), limiter.Charge{Subject: user, Limit: concurrent(t, 2), Cost: 1}
		var held []*limiter.Receipt
		for i := range 2 {
			_, receipt := hold(t, l, noon.Add(time.Duration(i)), exports)
			held = append(held, receipt)
		}
		store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
		if asked {
			if d := takeAt(t, l, noon.Add(time.Second), exports); d.Allowed {
				t.Errorf("full at the beginning of an outage: got %+v, want a refusal", d)
			}
		}
		for _, receipt := range held {
			receipt.Settle(ctx, noon.Add(time.Second), func(limiter.Charge) int64 { return 0 })
		}
		for i := range 3 {
			if d := takeAt(t, l, noon.Add(2*time.Second), exports); d.Allowed != (i < 2) {
				t.Errorf("request %d after the releases, asked %t: got %+v, want allowed %t", i, asked, d, i < 2)
			}
		}
	}
}

// throttling is a store that throttles the first settlements of each subject.
type throttling struct {
	*remote
	first int // number of settlements that it throttles
	calls int
}

func (s *throttling) Settle(ctx context.Context, now algo.Instant, who limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	s.calls++
	if s.calls <= s.first {
		return limiter.Settled{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)
	}
	return s.remote.Settle(ctx, now, who, charges, results, elapsed)
}

// A throttled settlement is repeated until its deadline, at most five times, if the limit has a Count or the charge is
// forced. A refund of a limit without a Count is not repeated.
func TestReceipt_Settle_throttled(t *testing.T) {
	failures := limit(t, limiter.Limit{Name: "logins", Rate: perMinute(t, "logins", 2).Rate, Count: limiter.Count{Of: limiter.CountFailures}})
	plain := perMinute(t, "plain", 2)
	for _, c := range []struct {
		limit                *limiter.Limit
		actual               int64
		timeout              time.Duration
		first, calls, pauses int
		lost                 int
	}{
		{concurrent(t, 2), 0, 0, 0, 1, 0, 0},
		{concurrent(t, 2), 0, 0, 3, 4, 70, 0},
		{concurrent(t, 2), 0, 0, 5, 6, 310, 0},
		{concurrent(t, 2), 0, 0, 6, 6, 310, 1},
		{concurrent(t, 2), 0, 100 * time.Millisecond, 6, 4, 100, 1},
		{failures, 0, 0, 3, 4, 70, 0},
		{plain, 2, 0, 3, 4, 70, 0},
		{plain, 2, 0, 6, 6, 310, 1},
		{plain, 0, 0, 1, 1, 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &throttling{remote: newRemote(), first: c.first}
			half := func(n int) int { return n / 2 } // every random number is the mean
			l := storetest.Must(limiter.New(store, limiter.Options{Timeout: c.timeout, IntN: half, Logger: slog.New(slog.DiscardHandler)}))
			_, receipt := hold(t, l, noon, limiter.Charge{Subject: user, Limit: c.limit, Cost: 1})
			began := time.Now()
			done := receipt.Settle(ctx, noon, func(limiter.Charge) int64 { return c.actual })
			want := time.Duration(c.pauses) * time.Millisecond
			if took := time.Since(began); store.calls != c.calls || done.Lost != c.lost || took != want {
				t.Errorf("%s, %d throttled calls: got %d calls, %d lost after %s, want %d, %d after %s", c.limit.Name, c.first, store.calls, done.Lost,
					took, c.calls, c.lost, want)
			}
		})
	}
}

// Concurrent requests on one subject take their slots in separate calls, so that each releases only its own slot.
func TestCountConcurrent_together(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, c := over(store, 0), limiter.Charge{Subject: user, Cost: 1, Limit: concurrent(t, 10)}
		receipts := make([]*limiter.Receipt, 4)
		for i, d := range oneByOne(len(receipts), func(i int) (d limiter.Decision) { d, receipts[i] = hold(t, l, noon, c); return d }) {
			if !d.Allowed {
				t.Errorf("request %d: got %+v, want it allowed", i+1, d)
			}
		}
		for _, costs := range store.costs {
			if costs[0] != 1 {
				t.Errorf("got calls of %v, want one slot in each", store.costs)
			}
		}
		for i, r := range receipts {
			release(t, r, noon)
			if d := mustPeek(t, l, noon, c); d.Remaining != 7+int64(i) {
				t.Errorf("after %d releases: got %d free slots, want %d", i+1, d.Remaining, 7+i)
			}
		}
	})
}
