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

func (l *lossy) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
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

// A process sends a report, and the store neither counts nor answers it. The process keeps its own count of these
// requests, even if it needs room for the counters of other subjects.
func TestSpread_sync_lost_kept(t *testing.T) {
	store := newRemote()
	e := storetest.Must(limiter.New(store, limiter.Options{Subjects: 2, Logger: slog.New(slog.DiscardHandler)}))
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", OnError: limiter.OnErrorAllow,
		Rate: algo.Rate{Requests: 10, Window: time.Hour}, Spread: limiter.Spread{Sync: 100 * time.Millisecond}})}
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
