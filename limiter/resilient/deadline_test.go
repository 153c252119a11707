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
	guarded := storetest.Must(resilient.New(store, resilient.Options{Failures: math.MaxInt}))
	return storetest.Must(limiter.New(guarded, limiter.Options{Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}))
}

// hanging is a store that answers, or hangs until the deadline.
type hanging struct {
	limiter.Store
	mu      sync.Mutex
	waited  []time.Duration
	answers bool
}

func (h *hanging) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
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
		deny := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, OnError: limiter.OnErrorDeny}))
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
		l = storetest.Must(limiter.New(storetest.Must(resilient.New(probe, resilient.Options{})), limiter.Options{Timeout: 950 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
		if d, err := l.Take(t.Context(), begun, charges[:1]); err != nil || time.Since(begun) != 950*time.Millisecond {
			t.Errorf("with a longer timeout of the Limiter the first decision took %s, want 950 ms: %+v, %v", time.Since(begun), d, err)
		}
	})
}

// connecting is a store whose connections open slowly. If the call that opens a connection ends, the connection
// is closed. Connections also close five seconds after the last answer.
type connecting struct {
	limiter.Store
	takes time.Duration
	hangs bool
	used  time.Time
}

func (c *connecting) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	takes := c.takes
	if time.Since(c.used) < 5*time.Second {
		takes = 0
	}
	if end, _ := ctx.Deadline(); c.hangs || time.Until(end) < takes {
		<-ctx.Done()
		c.used = time.Time{}
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	time.Sleep(takes)
	c.used = time.Now()
	return c.Store.Take(ctx, now, s, charges, results)
}

// Opening a connection takes longer than the usual deadline. With few requests, each gets time to
// connect after an outage, so all requests are served. With many requests in a row, no request waits
// that long while the store hangs.
func TestLimiter_Take_slowConnection(t *testing.T) {
	for _, c := range []struct {
		pause, outage time.Duration
		late, long    int // late: requests not served after the outage; long: requests that waited 250 ms
	}{
		{10 * time.Second, 0, 0, 0}, {3 * time.Second, 0, 0, 0}, {10 * time.Second, time.Minute, 0, 6}, {3 * time.Second, time.Minute, 0, 20},
		{900 * time.Millisecond, time.Minute, 0, 0},
	} {
		t.Run(fmt.Sprint(c.pause, c.outage), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &connecting{Store: storetest.Must(memstore.New(memstore.Options{})), takes: 120 * time.Millisecond, hangs: true}
				l := behind(store, 100*time.Millisecond)
				charge := limiter.Charge{Subject: user, Cost: 1, Limit: storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 1000, Window: time.Minute}}))}
				begun, late, long := time.Now(), 0, 0
				for i := 0; i == 0 || time.Since(begun) < time.Hour; i++ {
					sent := time.Now()
					store.hangs = i == 0 || sent.Sub(begun) <= c.outage
					if c.pause < time.Second && !store.hangs {
						store.takes = 0 // from here on, connections open at once
					}
					d, err := l.Take(t.Context(), sent, []limiter.Charge{charge})
					if err != nil {
						t.Fatal(err)
					}
					switch took := time.Since(sent); {
					case i > 0 && took > 250*time.Millisecond:
						t.Errorf("request %d took %s, want at most 250ms", i+1, took)
					case i > 0 && took == 250*time.Millisecond:
						long++
					case !store.hangs && d.Reason != limiter.ReasonNone:
						late++
					}
					time.Sleep(c.pause - time.Since(sent))
				}
				if late != c.late || long != c.long {
					t.Errorf("got %d requests not served after the outage, want %d; got %d that waited longer during the outage, want %d", late, c.late, long, c.long)
				}
			})
		})
	}
}
