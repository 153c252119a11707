package resilient_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// behind returns a Limiter with store, a timeout, and a breaker that never opens.
func behind(store limiter.Store, timeout time.Duration) *limiter.Limiter {
	return storetest.Must(limiter.New(opening(store, math.MaxUint32),
		limiter.Options{Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}))
}

// hanging is a store that answers, or hangs until the deadline.
type hanging struct {
	limiter.Store
	mu      sync.Mutex
	waited  []time.Duration
	answers bool
}

func (h *hanging) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	if h.answers {
		return h.Store.Take(ctx, now, s, charges, results)
	}
	begun := time.Now()
	<-ctx.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waited = append(h.waited, time.Since(begun))
	return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
}

// The first decision has the longest deadline. A decision after a failure, or after a pause in which connections
// close, has time to connect. Any other decision has the usual deadline, also with several subjects.
func TestLimiter_Take_deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{Store: storetest.Must(memstore.New(memstore.Options{}))}
		l := behind(store, 50*time.Millisecond)
		deny := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute},
			OnError: limiter.OnErrorDeny}))
		charges := []limiter.Charge{{Subject: user, Limit: deny, Cost: 1}, {Subject: limiter.User("43"), Limit: deny, Cost: 1}}
		answered := func() {
			store.answers = true
			if _, err := l.Take(t.Context(), time.Now(), charges[:1]); err != nil {
				t.Fatal(err)
			}
			store.answers = false
		}
		for i, c := range []struct {
			pause, want time.Duration
			answered    bool // the store answered one earlier call
		}{
			{0, 900 * time.Millisecond, false}, {0, 50 * time.Millisecond, false}, {900 * time.Millisecond, 50 * time.Millisecond, false},
			{time.Second, 250 * time.Millisecond, false}, {10 * time.Second, 250 * time.Millisecond, false},
			{4 * time.Second, 50 * time.Millisecond, true}, {5 * time.Second, 250 * time.Millisecond, true}, {0, 50 * time.Millisecond, false},
			{-time.Second, 50 * time.Millisecond, true},  // the store already answered a request one second later
			{-time.Minute, 250 * time.Millisecond, true}, // the clock was set back
		} {
			if c.answered {
				answered()
			}
			begun := time.Now()
			now := begun.Add(c.pause)
			if c.pause > 0 {
				time.Sleep(c.pause)
				begun, now = time.Now(), time.Now()
			}
			d, err := l.Take(t.Context(), now, charges)
			if took := time.Since(begun); err != nil || took != c.want || !d.Failed || d.Reason != limiter.ReasonTimeout {
				t.Errorf("decision %d took %s, want %s: %+v, %v", i+1, took, c.want, d, err)
			}
		}
		answered()
		time.Sleep(6 * time.Second)
		store.waited = nil
		var together sync.WaitGroup
		for i := range 10 { // all of them begin before the first decision ends
			theirs := limiter.Charge{Subject: limiter.User(fmt.Sprint("one of ten ", i)), Limit: deny, Cost: 1}
			together.Go(func() { _, _ = l.Take(t.Context(), time.Now(), []limiter.Charge{theirs}) })
		}
		together.Wait()
		if !slices.Equal(store.waited, slices.Repeat([]time.Duration{250 * time.Millisecond}, 10)) {
			t.Errorf("the concurrent requests waited %s, want 250 ms each", store.waited)
		}
		begun, probe := time.Now(), &hanging{Store: store.Store, answers: true}
		guarded := storetest.Must(resilient.New(probe, resilient.Options{}))
		if err := direct(t.Context(), guarded, charges[:1]); err != nil { // this call opens a connection before the first decision
			t.Fatal(err)
		}
		probe.answers = false
		l = storetest.Must(limiter.New(guarded, limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
		if d, err := l.Take(t.Context(), begun, charges[:1]); err != nil || time.Since(begun) != 900*time.Millisecond {
			t.Errorf("the first decision after a probe took %s, want 900 ms: %+v, %v", time.Since(begun), d, err)
		}
		begun = time.Now()
		l = storetest.Must(limiter.New(storetest.Must(resilient.New(probe, resilient.Options{})), limiter.Options{Timeout: 950 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler)}))
		if d, err := l.Take(t.Context(), begun, charges[:1]); err != nil || time.Since(begun) != 950*time.Millisecond {
			t.Errorf("with a longer timeout of the Limiter the first decision took %s, want 950 ms: %+v, %v", time.Since(begun), d, err)
		}
	})
}
