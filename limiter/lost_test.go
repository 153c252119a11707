package limiter_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// lossy is a store that loses calls and answers at random. A lost call is not executed.
type lossy struct {
	*remote
	random *rand.Rand
}

func (l *lossy) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	lost := errors.Join(limiter.ErrUnavailable, context.DeadlineExceeded)
	switch l.random.IntN(4) {
	case 0: // lose the answer
		made := make([]algo.Result, len(results))
		_, _ = l.remote.Take(ctx, now, s, charges, made)
		return false, lost
	case 1: // lose the call
		return false, lost
	case 2:
		return false, errors.Join(limiter.ErrUnavailable, limiter.ErrItemThrottled)
	}
	return l.remote.Take(ctx, now, s, charges, results)
}

func newLossy(seed uint64) *lossy {
	return &lossy{newRemote(), rand.New(rand.NewPCG(seed, 0))}
}

// used returns the usage of a subject's limit in a store.
func used(t *testing.T, store limiter.Store, now time.Time, c limiter.Charge) int64 {
	t.Helper()
	held, err := store.Inspect(ctx, c.Subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held {
		if h.ID == c.Limit.ID {
			return h.Machine.Used(h.State, algo.InstantOf(now))
		}
	}
	return 0
}

// A report without an answer is not sent again if the store may have charged it. The store never counts more than the
// requests.
func TestSpread_sync_lost(t *testing.T) {
	for seed := range uint64(50) {
		store := newLossy(seed)
		e := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 10_000, Window: 24 * time.Hour}, Spread: limiter.Spread{Sync: 100 * time.Millisecond}})}
		for i := range int64(400) {
			now := noon.Add(time.Duration(i) * 37 * time.Millisecond)
			if _, err := e.Take(ctx, now, []limiter.Charge{c}); err != nil {
				t.Fatal(err)
			}
			if counted := used(t, store, now, c); counted > i+1 {
				t.Fatalf("seed %d: after %d requests: got a count of %d in the store, want at most one for each request", seed, i+1, counted)
			}
		}
		if counted := used(t, store, noon.Add(time.Minute), c); counted < 100 {
			t.Errorf("seed %d: after 400 requests: got a count of %d in the store, want at least 100", seed, counted)
		}
	}
}

// An environment without answers still enforces the limit. When the store answers again, each admission
// counts once, even if the store has not received it.
func TestSpread_sync_lost_enforced(t *testing.T) {
	const requests = 40
	for _, algorithm := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog} {
		for seed := range uint64(50) {
			store := newLossy(seed)
			e := storetest.Must(limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
			rate := algo.Rate{Algorithm: algorithm, Requests: requests, Window: 2 * time.Second}
			c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: rate, Spread: limiter.Spread{Sync: 50 * time.Millisecond}})}
			takeUntilKnown(t, e, c)
			var admitted []time.Time
			for i := range 800 {
				now := noon.Add(time.Duration(i) * 10 * time.Millisecond)
				d, err := e.Take(ctx, now, []limiter.Charge{c})
				if err != nil {
					t.Fatal(err)
				}
				if d.Allowed {
					admitted = append(admitted, now)
				}
			}
			for i, from := range admitted {
				for j, at := range admitted[i:] {
					if most := bound(rate, from, at); float64(j+1) > most {
						t.Fatalf("%s, seed %d: %d admitted in %s, want at most %g", algorithm, seed, j+1, at.Sub(from), most)
					}
				}
			}
			if len(admitted) < requests {
				t.Errorf("%s, seed %d: %d admitted in 8 s, want at least %d", algorithm, seed, len(admitted), requests)
			}
		}
	}
}

// takeUntilKnown sends requests until the counter is synchronized. Before that, OnError decides.
func takeUntilKnown(t *testing.T, e *limiter.Limiter, c limiter.Charge) {
	t.Helper()
	for i := range 100 {
		if d, err := e.Take(ctx, noon.Add(time.Duration(i-200)*time.Minute), []limiter.Charge{c}); err != nil {
			t.Fatal(err)
		} else if d.Reason == limiter.ReasonNone && d.StoreCalls == 1 {
			return
		}
	}
	t.Fatal("got no answer of the store, want one")
}

// bound returns the largest number of requests that a rate admits between two instants.
func bound(rate algo.Rate, from, at time.Time) float64 {
	if rate.Algorithm == algo.FixedWindow {
		return float64(rate.Requests * (at.UnixNano()/int64(rate.Window) - from.UnixNano()/int64(rate.Window) + 1))
	}
	return float64(rate.Requests)*(1+float64(at.Sub(from))/float64(rate.Window)) + 1e-9
}

// A process sends a report, and the store neither counts nor answers it. The process keeps its own count of these
// requests, even if it needs room for the counters of other subjects.
func TestSpread_sync_lost_kept(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{Subjects: 2, Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", OnError: limiter.OnErrorAllow, Rate: algo.Rate{Requests: 10, Window: time.Hour}, Spread: limiter.Spread{Sync: 100 * time.Millisecond}})}
	for range 10 {
		if d := take(t, e, c); !d.Allowed {
			t.Fatalf("got %+v, want it allowed", d)
		}
	}
	store.fail = map[limiter.Subject]error{user: errors.Join(limiter.ErrUnavailable, context.DeadlineExceeded)}
	if d := takeAt(t, e, noon.Add(time.Second), c); d.Allowed || used(t, store, noon, c) != 0 {
		t.Fatalf("got %+v and %d requests in the store, want a refusal and a lost report", d, used(t, store, noon, c))
	}
	store.fail = nil
	theirs := c
	theirs.Subject = other
	takeAt(t, e, noon.Add(10*time.Second), theirs)
	if d := takeAt(t, e, noon.Add(20*time.Second), c); d.Allowed {
		t.Errorf("after a request of another subject: got %+v, want a refusal, because the process has admitted 10", d)
	}
}
