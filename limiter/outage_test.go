package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// flaky is a remote store that fails and recovers at random. It loses charges, answers and refunds, and
// executes charges late.
type flaky struct {
	fated
	mu     sync.Mutex
	random *rand.Rand
	down   bool     // most calls of the store fail
	late   []func() // charges in flight: the store executes them later
}

var (
	errHangs   = fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.DeadlineExceeded)
	errRefused = fmt.Errorf("%w: connection refused", limiter.ErrUnavailable)
)

func newFlaky(seed uint64) *flaky {
	f := &flaky{random: rand.New(rand.NewPCG(seed, 1))}
	f.fated = newFated(f.fate)
	return f
}

// fate executes the function call at once, later or never, at random. It returns the simulated error, or nil.
func (f *flaky) fate(_ limiter.Subject, _ uint64, call func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.IntN(8) == 0 {
		f.down = !f.down
	}
	for len(f.late) > 0 && f.random.IntN(3) == 0 {
		f.late[0]()
		f.late = f.late[1:]
	}
	fate := f.random.IntN(5)
	if !f.down && f.random.IntN(20) > 0 {
		fate = 5
	}
	switch fate {
	case 0:
		return errRefused
	case 1:
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrBreakerOpen)
	case 2: // the answer is lost
		call()
		return errHangs
	case 3:
		f.late = append(f.late, call)
		return errHangs
	case 4:
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrThrottled)
	}
	call()
	return nil
}

// fated is a remote store. The function meet executes each call at once, late or never, and returns the simulated error,
// or nil. kind is 0 for a charge and 1 for a settlement.
type fated struct {
	limiter.Store
	storetest.Patient
	meet func(subject limiter.Subject, kind uint64, call func()) error
}

func newFated(meet func(limiter.Subject, uint64, func()) error) fated {
	return fated{Store: storetest.Must(memstore.New(memstore.Options{})), meet: meet}
}

func (f *fated) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	sent, got := slices.Clone(charges), slices.Clone(results)
	var taken bool // a late call writes taken and err, which are not read again
	var err error
	if err := f.meet(subject, 0, func() { taken, err = f.Store.Take(ctx, now, subject, sent, got) }); err != nil {
		return false, err
	}
	copy(results, got)
	return taken, err
}

func (f *fated) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	charges, results = slices.Clone(charges), slices.Clone(results)
	var settled limiter.Settled // a late call writes settled and err, which are not read again
	var err error
	if err := f.meet(subject, 1, func() { settled, err = f.Store.Settle(ctx, now, subject, charges, results, elapsed) }); err != nil {
		return limiter.Settled{}, err
	}
	return settled, err
}

var outageRates = []algo.Rate{
	{Requests: 24, Window: time.Minute},
	{Algorithm: algo.FixedWindow, Requests: 24, Window: time.Minute},
	{Algorithm: algo.SlidingLog, Requests: 24, Window: time.Minute},
	{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute, Burst: 24},
	{Algorithm: algo.LeakyBucket, Requests: 60, Window: time.Minute, Burst: 24},
}

// If half of the concurrent requests get no answer in time, at most the limit is admitted.
func TestOutage_concurrent(t *testing.T) {
	for seed := range uint64(20) {
		store := newFlaky(seed)
		l := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: 57, Window: 24 * time.Hour}})}
		var admitted atomic.Int64
		var together sync.WaitGroup
		for range 64 {
			together.Go(func() {
				for range 10 {
					if d, err := l.Take(ctx, noon, []limiter.Charge{c}); err != nil {
						t.Error(err)
					} else if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		together.Wait()
		if n := admitted.Load(); n > 57 {
			t.Fatalf("seed %d: %d admitted, want at most 57", seed, n)
		}
	}
}

// In an outage, a process admits exactly the rest of the limit, whether the store executes no calls or
// loses its answers. After the outage, the process admits no further request.
func TestOutage_room(t *testing.T) {
	for _, rate := range outageRates {
		for name, lost := range map[string]bool{"not charged": false, "charged, and the answer lost": true} {
			t.Run(string(rate.Algorithm)+" "+name, func(t *testing.T) {
				inner := storetest.Must(memstore.New(memstore.Options{}))
				store := &switched{Store: inner}
				l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: rate})}
				count := func(want int) {
					t.Helper()
					got := 0
					for range 50 {
						if take(t, l, c).Allowed {
							got++
						}
					}
					if got != want {
						t.Errorf("got %d admitted, want %d", got, want)
					}
				}
				for range 10 {
					take(t, l, c)
				}
				store.fails, store.applies = true, lost
				count(14)
				store.fails = false
				count(0)
				store.fails, store.applies = true, false // the fallback keeps its counts for the next outage
				count(0)
				store.fails = false
				if d := takeAt(t, l, noon.Add(time.Hour), c); !d.Allowed || d.Remaining != 23 {
					t.Errorf("an hour later: got %+v, want an admission and 23 remaining", d)
				}
			})
		}
	}
}

// switched is a store that fails on demand, with or without executing the charges.
type switched struct {
	limiter.Store
	fails, applies bool
}

func (s *switched) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	if s.fails {
		if s.applies {
			_, _ = s.Store.Take(ctx, now, subject, charges, slices.Clone(results))
		}
		return false, errHangs
	}
	return s.Store.Take(ctx, now, subject, charges, results)
}

// In an outage, the fallback uses cached states of any age, even after the refund of another request.
// When the store counts at least as much as the fallback, the fallback drops its counts.
func TestOutage_cached(t *testing.T) {
	r := newRemote()
	r.fail = map[limiter.Subject]error{}
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	daily := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 5, Window: 24 * time.Hour}})
	c, theirs := limiter.Charge{Subject: user, Limit: daily, Cost: 1}, limiter.Charge{Subject: other, Limit: perMinute(t, "theirs", 1),
		Cost: 1}
	for range 3 {
		take(t, l, c)
	}
	take(t, l, theirs)
	take(t, l, theirs) // the limit refuses this second request
	if d := takeAt(t, l, noon.Add(2*time.Second), c, theirs); d.Allowed || d.Refunds.Given != 1 {
		t.Fatalf("got %+v, want a refusal by the other limit and a refund", d)
	}
	r.fail[user] = limiter.ErrUnavailable
	later := noon.Add(time.Hour)
	if d := takeAt(t, l, later, c); outcome(d) != "degraded" || d.Remaining > 1 {
		t.Errorf("an hour later: got %+v, want the three cached requests to count", d)
	}
	takeAt(t, l, later, c)
	if d := takeAt(t, l, later, c); outcome(d) != "refused degraded" || d.Limit != daily || d.Superseded || d.RetryAfter != 11*time.Hour {
		t.Errorf("above the limit: got %+v, want a refusal by this process with a wait of 11h", d)
	}
	r.fail[user] = nil
	if d := takeAt(t, l, later, c); outcome(d) != "refused degraded" || d.Reason != limiter.ReasonOutage || d.Limit != daily {
		t.Errorf("the store is back: got %+v, want the requests of the outage to count", d)
	}
	others := storetest.Must(limiter.New(r, limiter.Options{}))
	for range 5 {
		takeAt(t, others, later, c) // another environment uses up the limit in the store
	}
	calls := r.takes.Load()
	tomorrow := noon.Add(12 * time.Hour)
	for range 5 {
		if d := takeAt(t, l, tomorrow, c); outcome(d) != "allowed" {
			t.Errorf("the next day: got %+v, want an admission by the store", d)
		}
	}
	if n := r.takes.Load() - calls; n != 5 {
		t.Errorf("got %d calls, want 5", n)
	}
}

// After an outage, a request that the fallback refuses makes no store call, so it takes no quota from other
// processes.
func TestOutage_refused(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 5), Cost: 1}
	r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	for range 5 {
		take(t, l, c)
	}
	r.fail = nil
	calls := r.takes.Load()
	for range 20 {
		if d := take(t, l, c); d.Allowed || d.Limit != c.Limit || d.Reason != limiter.ReasonOutage || d.RetryAfter <= 0 {
			t.Errorf("got %+v, want a refusal by its limit with a reason", d)
		}
	}
	if n := r.takes.Load() - calls; n != 1 {
		t.Errorf("got %d calls, want one, which succeeds", n)
	}
	if d := mustPeek(t, storetest.Must(limiter.New(r, limiter.Options{})), noon, c); d.Remaining != 5 {
		t.Errorf("got %d remaining for other callers, want 5", d.Remaining)
	}
}

// After an outage, a lease takes at most the quota that the fallback leaves, so the rest of the limit can
// be used.
func TestOutage_lease(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
		Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 100, Window: time.Hour}, Spread: limiter.Spread{Lease: 50},
	})}
	for range 31 { // leases of 1, 2, 4, 8 and 16, all used up
		take(t, l, c)
	}
	r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	later := noon.Add(500 * time.Millisecond)
	admitted := 31
	for range 64 {
		if takeAt(t, l, later, c).Allowed {
			admitted++
		}
	}
	r.fail = nil
	for range 20 {
		d := takeAt(t, l, later, c)
		if d.Allowed != (admitted < 100) {
			t.Errorf("after %d admissions: got %+v, want allowed %t", admitted, d, admitted < 100)
		}
		if d.Allowed {
			admitted++
		}
	}
}

// If a report is lost, its charges still count in this process after the outage.
func TestOutage_sync(t *testing.T) {
	r := newRemote()
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
		Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour}, Spread: limiter.Spread{Sync: time.Second},
	})}
	admitted, now := 0, noon
	for i := range 30 {
		r.fail = nil
		if i >= 6 && i < 9 {
			r.fail = map[limiter.Subject]error{user: errHangs}
		}
		now = now.Add(2 * time.Second)
		if takeAt(t, l, now, c).Allowed {
			admitted++
		}
	}
	if admitted != 10 {
		t.Errorf("got %d admitted, want 10", admitted)
	}
}

// While the fallback has no counts, it does not count requests that the store decides.
func TestOutage_reset(t *testing.T) {
	r := newRemote()
	r.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
	l := storetest.Must(limiter.New(r, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Limit: perMinute(t, "a", 1), Cost: 1}
	take(t, l, c)
	if d := take(t, l, c); d.Allowed {
		t.Fatalf("the limit is used up: got %+v, want a refusal", d)
	}
	if err := l.Reset(ctx, []limiter.Charge{c}); err != nil {
		t.Fatal(err)
	}
	if d := take(t, l, c); !d.Allowed {
		t.Errorf("after a reset: got %+v, want an admission", d)
	}
}

// When the store counts at least as much as the fallback, the fallback drops its counts. While another request
// is in progress, the fallback keeps its counts, because the store may not count the charge of that request
// yet.
func TestOutage_dropAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		store.fail = map[limiter.Subject]error{user: limiter.ErrUnavailable}
		l := over(store, 0)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: 10, Window: time.Hour}})}
		theirs := limiter.Charge{Subject: other, Cost: 1, Limit: perMinute(t, "theirs", 10)}
		takeAt(t, l, noon, c) // the fallback counts this charge, because the store fails
		store.fail[user] = nil
		elsewhere := over(store, 0)
		for range 3 { // the store now counts more than the fallback
			takeAt(t, elsewhere, noon, c)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			time.Sleep(store.takes / 2)
			takeAt(t, l, noon, theirs) // this call is in flight until the next request ends
		}()
		if d := takeAt(t, l, noon, c); !d.Allowed || !l.FallbackHolds(noon) {
			t.Errorf("another request in progress: got %+v, holds %t; want the count held", d, l.FallbackHolds(noon))
		}
		<-done
		if d := takeAt(t, l, noon, c); !d.Allowed || l.FallbackHolds(noon) {
			t.Errorf("no other request: got %+v, holds %t; want no count held", d, l.FallbackHolds(noon))
		}
	})
}

// After an outage, a limit with shards reports what this process counts of the whole limit, as that of its own rules: the first
// refusal follows a call, the second one makes none.
func TestOutage_shards(t *testing.T) {
	var log strings.Builder
	store := &switched{Store: storetest.Must(memstore.New(memstore.Options{})), fails: true}
	l := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	c := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Spread: limiter.Spread{Shards: 2},
		Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 20, Window: time.Hour}})}
	for i, cost := range []int64{18, 3, 3, 1} {
		c.Cost = cost
		d := take(t, l, c)
		if left := []int64{2, 2, 2, 1}[i]; d.Allowed != (cost != 3) || d.Limit != c.Limit || d.Superseded || d.Capacity != 20 ||
			d.Remaining != left {
			t.Errorf("request %d: got %+v, want allowed %t by the limit of 20 with %d remaining", i+1, d, cost != 3, left)
		}
		store.fails = false
	}
	if strings.Contains(log.String(), "superseded") {
		t.Errorf("got the lines %s, want none of superseded rules", &log)
	}
}
