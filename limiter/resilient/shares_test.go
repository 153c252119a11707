package resilient_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// farAway is the store of another region. Its answers take time, and more if a connection has to be opened.
type farAway struct {
	*memstore.Store
	trip, open    time.Duration
	looks, debits atomic.Int64
}

// unlocal hides that the store is in this process.
type unlocal struct {
	limiter.Store
	limiter.Shares
}

func (f *farAway) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	f.looks.Add(1)
	select {
	case <-ctx.Done():
		return false, errors.Join(limiter.ErrUnavailable, ctx.Err())
	case <-time.After(f.open + f.trip):
	}
	if f.open > 0 {
		f.open = 0
	}
	return f.Store.Take(ctx, now, s, charges, results)
}

func (f *farAway) Debit(ctx context.Context, now algo.Instant, s limiter.Subject, l *limiter.Limit, index, lack int64,
	seen *algo.Result) (int64, error) {
	f.debits.Add(1)
	time.Sleep(f.trip)
	return f.Store.Debit(ctx, now, s, l, index, lack, seen)
}

// A debit goes only over a connection that is known to be open: otherwise it could reach the store after its caller has
// given up, and its share would be lost.
func TestStore_Debit_connects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: time.Minute, Regions: algo.Regions{Of: 2, Place: 1}}
		limit := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: shared}))
		far := &farAway{Store: storetest.Must(memstore.New(memstore.Options{})), trip: 80 * time.Millisecond, open: 240 * time.Millisecond}
		store := storetest.Must(resilient.New(unlocal{far, far}, resilient.Options{}))
		var seen algo.Result
		for i, step := range []struct {
			pause         time.Duration
			sent          bool
			looks, debits int64
		}{
			{0, false, 1, 0}, // no time is left, and the look goes on
			{time.Second, true, 1, 1},
			{40 * time.Second, true, 1, 2},
			{55 * time.Second, true, 2, 3}, // the connection may be gone
		} {
			time.Sleep(step.pause)
			ctx, cancel := context.WithTimeout(t.Context(), limiter.DebitTimeout)
			now := algo.InstantOf(time.Now())
			moved, err := store.Debit(ctx, now, user, limit, algo.WindowOf(limit.Machine()).Index(now), 1, &seen)
			cancel()
			if sent := err == nil && moved > 0; sent != step.sent || !sent && !errors.Is(err, limiter.ErrNotSent) || sent && seen.Machine == nil ||
				far.looks.Load() != step.looks || far.debits.Load() != step.debits {
				t.Errorf("step %d: got %d moved, error %v, %d looks and %d debits, want %+v", i, moved, err, far.looks.Load(), far.debits.Load(), step)
			}
		}
		var all sync.WaitGroup
		for range 3 { // of three debits at a time, two need further connections
			all.Go(func() {
				now := algo.InstantOf(time.Now())
				if _, err := store.Debit(t.Context(), now, user, limit, algo.WindowOf(limit.Machine()).Index(now), 1, new(algo.Result)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if far.looks.Load() != 4 || far.debits.Load() != 6 {
			t.Errorf("three debits at a time: got %d looks and %d debits, want two and three more", far.looks.Load(), far.debits.Load())
		}
	})
}

// silent is a store whose credits have no answer.
type silent struct {
	*memstore.Store
	credits int
}

func (f *silent) Credit(context.Context, algo.Instant, limiter.Subject, *limiter.Limit, int64, int64) (algo.Result, bool, error) {
	f.credits++
	return algo.Result{}, false, errors.Join(limiter.ErrUnavailable, io.EOF)
}

// A credit that fails is not repeated, also if its connection was dead. Its failures open the breaker, which then sends none.
func TestStore_Credit_fails(t *testing.T) {
	shared := algo.Rate{Algorithm: algo.FixedWindow, Requests: 300, Window: time.Minute, Regions: algo.Regions{Of: 2, Place: 1}}
	limit := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: shared}))
	bare := &silent{Store: storetest.Must(memstore.New(memstore.Options{}))}
	store := storetest.Must(resilient.New(unlocal{bare, bare}, resilient.Options{}))
	for i := range resilient.Failures + 1 {
		_, credited, err := store.Credit(t.Context(), 0, user, limit, 0, 5)
		open := i == resilient.Failures
		if credited || err == nil || errors.Is(err, limiter.ErrBreakerOpen) != open || bare.credits != min(i+1, resilient.Failures) {
			t.Errorf("credit %d: got credited %t, error %v and %d credits in the store, want a failure, and an open breaker %t", i+1, credited, err,
				bare.credits, open)
		}
	}
}
