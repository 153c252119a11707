package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// queued returns a handler whose requests leave a leaky bucket every 100 ms.
func queued(t *testing.T, next http.HandlerFunc) http.Handler {
	t.Helper()
	queue := limit(t, "queue", algo.Rate{Algorithm: algo.LeakyBucket, Requests: 10, Window: time.Second, Burst: 5})
	return httplimit.New(httplimit.Options{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{})),
		Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
			return rules.Selection{Charges: []limiter.Charge{{Subject: r.Caller.Subject(), Limit: queue, Cost: 1}}}
		},
		Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
			return caller.Caller{User: "a"}, nil
		},
		MaxDelay: time.Second,
	}).Wrap(next)
}

func status(ctx context.Context, h http.Handler) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	return w.Code
}

// Requests leave a leaky bucket at a fixed interval and wait at most MaxDelay. If the context of a
// request ends, the request leaves the queue.
func TestGate_delay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var left []time.Duration
		begun := time.Now()
		h := queued(t, func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, time.Since(begun))
		})
		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(250*time.Millisecond, cancel)
		var wg sync.WaitGroup
		statuses := make([]int, 6)
		for i := range statuses {
			ctx := t.Context()
			if i == 3 {
				ctx = gone
			}
			wg.Go(func() { statuses[i] = status(ctx, h) })
			synctest.Wait() // each request joins the queue before the next request begins
		}
		wg.Wait()
		if want := []int{200, 200, 200, 503, 200, 429}; !slices.Equal(statuses, want) {
			t.Errorf("statuses: got %v, want %v", statuses, want)
		}
		if want := []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}; !slices.Equal(left, want) {
			t.Errorf("departures: got %v, want %v", left, want)
		}
	})
}

// A request does not wait if its turn comes too late for an answer before its deadline.
func TestGate_delayDeadline(t *testing.T) {
	for _, c := range []struct {
		left   time.Duration // until the deadline
		status int
		waited time.Duration
	}{
		{100*time.Millisecond + httplimit.AnswerTime, http.StatusOK, 100 * time.Millisecond},
		{100*time.Millisecond + httplimit.AnswerTime - 1, http.StatusServiceUnavailable, 0},
		{50 * time.Millisecond, http.StatusServiceUnavailable, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := queued(t, func(http.ResponseWriter, *http.Request) {})
			ctx, cancel := context.WithTimeout(t.Context(), c.left)
			defer cancel()
			begun := time.Now()
			if first, second := status(ctx, h), status(ctx, h); first != http.StatusOK || second != c.status {
				t.Errorf("%s before the deadline: got %d and %d, want 200 and %d", c.left, first, second, c.status)
			}
			if waited := time.Since(begun); waited != c.waited {
				t.Errorf("%s before the deadline: waited %s, want %s", c.left, waited, c.waited)
			}
		})
	}
}
