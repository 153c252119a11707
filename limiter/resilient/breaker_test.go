package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
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
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	user = limiter.User("42")
)

// failing is a store that the Limiter treats as shared. It fails on demand.
type failing struct {
	limiter.Store
	calls atomic.Int64
	fail  atomic.Pointer[error]
	hang  atomic.Bool // calls last until the deadline
	takes time.Duration
}

func newFailing() *failing { return &failing{Store: storetest.Must(memstore.New(memstore.Options{}))} }

func (s *failing) failWith(err error) {
	s.fail.Store(&err)
	if err == nil {
		s.fail.Store(nil)
	}
}

func (s *failing) answer(ctx context.Context) error {
	s.calls.Add(1)
	if s.hang.Load() {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, ctx.Err())
	}
	time.Sleep(s.takes)
	if err := s.fail.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *failing) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	err := s.answer(ctx)
	// throttled writes do not throttle reads
	if writes := charges[0].Cost > 0; err != nil && (writes || !errors.Is(err, limiter.ErrItemThrottled)) {
		return false, err
	}
	return s.Store.Take(ctx, now, subject, charges, results)
}

func (s *failing) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if err := s.answer(ctx); err != nil {
		return limiter.Settled{}, err
	}
	return s.Store.Settle(ctx, now, subject, charges, results, elapsed)
}

func charge(tb testing.TB, n int64) []limiter.Charge {
	tb.Helper()
	l, err := limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Requests: n, Window: time.Hour}})
	if err != nil {
		tb.Fatal(err)
	}
	return []limiter.Charge{{Subject: user, Limit: l, Cost: 1}}
}

func direct(ctx context.Context, store limiter.Store, charges []limiter.Charge) error {
	_, err := store.Take(ctx, algo.InstantOf(noon), user, charges, make([]algo.Result, 1))
	return err
}

// After five failures in a row, only one call per pause reaches the store. The first call that succeeds closes
// the breaker.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store, charges := storetest.Must(resilient.New(s, resilient.Options{})), charge(t, 1000)
		want := func(what string, calls int64, open bool) {
			t.Helper()
			before := s.calls.Load()
			err := direct(t.Context(), store, charges)
			if got := s.calls.Load() - before; got != calls || errors.Is(err, limiter.ErrBreakerOpen) != open || open &&
				!errors.Is(err, limiter.ErrUnavailable) {
				t.Fatalf("%s: got %d store calls, want %d: %v", what, got, calls, err)
			}
		}
		s.failWith(limiter.ErrUnavailable)
		for i := range 4 {
			want(fmt.Sprint("failure ", i+1), 1, false)
		}
		s.failWith(nil)
		want("a success in between", 1, false)
		s.failWith(limiter.ErrUnavailable)
		for i := range 5 {
			want(fmt.Sprint("failure ", i+1, " in a row"), 1, false)
		}
		for range 3 { // each round is one pause of the breaker
			for range 100 {
				want("open", 0, true)
			}
			time.Sleep(resilient.Pause)
			want("open at the very end of the pause", 0, true)
			time.Sleep(time.Nanosecond)
			want("probe that fails", 1, false)
		}
		s.failWith(nil)
		want("the store works again, and the breaker is still open", 0, true)
		time.Sleep(resilient.Pause + 1)
		want("probe that succeeds", 1, false)
		for range 100 {
			want("as before", 1, false)
		}
	})
}

// While a probe is in flight, all other calls fail immediately.
func TestStore_probe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		s.hang.Store(true)
		store, charges := opening(s, 2), charge(t, 1000)
		for range 3 { // two rounds of 50 concurrent requests each; in the second round, only the probe waits for the deadline
			before := s.calls.Load()
			for round := range 2 {
				var wg sync.WaitGroup
				var open atomic.Int64
				begun := time.Now()
				for range 50 {
					wg.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
						defer cancel()
						if err := direct(ctx, store, charges); errors.Is(err, limiter.ErrBreakerOpen) {
							open.Add(1)
							if took := time.Since(begun); took != 0 {
								t.Errorf("a rejected call took %s, want 0s", took)
							}
						}
					})
				}
				wg.Wait()
				if round == 1 && open.Load() != 49 {
					t.Errorf("got %d rejected, want 49", open.Load())
				}
				time.Sleep(resilient.Pause + 1)
			}
			if calls := s.calls.Load() - before; before > 0 && calls != 2 {
				t.Errorf("got %d calls in two pauses, want 2", calls)
			}
		}
	})
}

// The breaker does not count an error about one subject as a failure of the store.
func TestStore_answers(t *testing.T) {
	for _, err := range []error{limiter.ErrContended, limiter.ErrFull, limiter.ErrFormat, fmt.Errorf("%w: %w", limiter.ErrUnavailable,
		limiter.ErrItemThrottled), fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrRejected)} {
		s := newFailing()
		s.failWith(err)
		store, charges := storetest.Must(resilient.New(s, resilient.Options{})), charge(t, 1000)
		for range 20 {
			if got := direct(t.Context(), store, charges); !errors.Is(got, err) {
				t.Errorf("got %v, want %v", got, err)
			}
		}
		if calls := s.calls.Load(); calls != 20 {
			t.Errorf("%v: got %d store calls, want 20", err, calls)
		}
	}
}

// Takes that time out count as failures although a settlement succeeds meanwhile: it can succeed without a call.
func TestStore_settleIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store, charges := storetest.Must(resilient.New(s, resilient.Options{})), charge(t, 1000)
		s.hang.Store(true)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := direct(ctx, store, charges); !limiter.TimedOut(err) {
					t.Errorf("got error %v, want a timeout", err)
				}
			})
		}
		synctest.Wait()
		s.hang.Store(false)
		if _, err := store.Settle(t.Context(), algo.InstantOf(noon), user, charges, make([]algo.Result, 1), 0); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if err := direct(t.Context(), store, charges); !errors.Is(err, limiter.ErrBreakerOpen) {
			t.Errorf("after five timeouts: got error %v, want %v", err, limiter.ErrBreakerOpen)
		}
	})
}

// A call that begins after its deadline neither counts as a failure nor uses up the probe.
func TestStore_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store, charges := opening(s, 1), charge(t, 1000)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := direct(gone, store, charges); !errors.Is(err, limiter.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("deadline passed: got error %v, want %v and %v", err, limiter.ErrUnavailable, context.Canceled)
		}
		s.failWith(limiter.ErrUnavailable)
		_ = direct(t.Context(), store, charges)
		s.failWith(nil)
		time.Sleep(resilient.Pause + 1)
		_ = direct(gone, store, charges)
		if err := direct(t.Context(), store, charges); err != nil || s.calls.Load() != 2 {
			t.Errorf("got %d calls and error %v, want 2 and no error", s.calls.Load(), err)
		}
	})
}

// New wraps a remote store once. Inspect and Reset call the store even while the breaker is open.
func TestNew(t *testing.T) {
	s := newFailing()
	store := opening(s, 1)
	for _, unfit := range []limiter.Store{nil, storetest.Must(memstore.New(memstore.Options{})), store} {
		if got, err := resilient.New(unfit, resilient.Options{}); got != nil || err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("got %T", unfit)) {
			t.Errorf("%T: got %v, error %v, want an error that names the type", unfit, got, err)
		}
	}
	_ = direct(t.Context(), store, charge(t, 10))
	s.failWith(limiter.ErrUnavailable)
	if _, err := store.Settle(t.Context(), 0, user, charge(t, 10), make([]algo.Result, 1), 0); err == nil {
		t.Error("the refund succeeded, want a failure")
	}
	if _, err := store.Settle(t.Context(), 0, user, charge(t, 10), make([]algo.Result, 1), 0); !errors.Is(err, limiter.ErrBreakerOpen) {
		t.Errorf("a refund while the breaker is open: got error %v, want %v", err, limiter.ErrBreakerOpen)
	}
	if entries, err := store.Inspect(t.Context(), user); err != nil || len(entries) != 1 {
		t.Errorf("Inspect while the breaker is open: got %v, %v, want one entry", entries, err)
	}
	if err := store.Reset(t.Context(), user); err != nil {
		t.Error(err)
	}
}

// A timeout does not open the breaker while the store answers other calls. The breaker opens when
// the store answers no call.
func TestStore_pressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store, charges := storetest.Must(resilient.New(s, resilient.Options{})), charge(t, 1000)
		round := func(answered int) (open int) {
			var wg sync.WaitGroup
			var rejected atomic.Int64
			s.hang.Store(true)
			for range 20 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					defer cancel()
					err := direct(ctx, store, charges)
					if errors.Is(err, limiter.ErrBreakerOpen) {
						rejected.Add(1)
					} else if !limiter.TimedOut(err) {
						t.Errorf("got %v, want a timeout", err)
					}
				})
			}
			synctest.Wait()
			s.hang.Store(false)
			for range answered {
				if err := direct(t.Context(), store, charges); err != nil {
					t.Errorf("another caller: got error %v, want none", err)
				}
			}
			wg.Wait()
			return int(rejected.Load())
		}
		for i := range 3 {
			if open := round(1); open != 0 {
				t.Errorf("round %d: got %d rejected although the store answers, want none", i+1, open)
			}
		}
		round(0)
		if open := round(0); open != 20 {
			t.Errorf("got %d rejected after 20 timeouts without an answer, want all", open)
		}
	})
}

// A process that only settles recovers from an open breaker as fast as one that takes. After the pause, one settlement
// looks at its subject, and the settlements that begin meanwhile wait for the answer. So none of them is lost.
func TestStore_settle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store := storetest.Must(resilient.New(s, resilient.Options{}))
		charged := charge(t, 1000)
		charged[0].Force = true
		settle := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := store.Settle(ctx, algo.InstantOf(noon), user, charged, make([]algo.Result, 1), 0)
			return err
		}
		s.hang.Store(true)
		for range 5 {
			if err := settle(); !limiter.TimedOut(err) {
				t.Fatalf("got error %v, want a timeout", err)
			}
		}
		for range 3 { // each round is one pause of the breaker
			if err := settle(); !errors.Is(err, limiter.ErrBreakerOpen) {
				t.Fatalf("in the pause: got error %v, want %v", err, limiter.ErrBreakerOpen)
			}
			time.Sleep(resilient.Pause + 1)
			before := s.calls.Load()
			if err := settle(); !errors.Is(err, limiter.ErrUnavailable) || s.calls.Load() != before+1 {
				t.Fatalf("after the pause: got error %v and %d calls, want %v after one look", err, s.calls.Load()-before, limiter.ErrUnavailable)
			}
		}
		s.hang.Store(false)
		s.takes = time.Millisecond
		time.Sleep(resilient.Pause + 1)
		before := s.calls.Load()
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if err := settle(); err != nil {
					t.Errorf("settlement %d after the pause: got error %v, want none", i, err)
				}
			})
		}
		wg.Wait()
		results := make([]algo.Result, 1)
		look := charge(t, 1000)
		look[0].Cost = 0
		if _, err := s.Store.Take(t.Context(), algo.InstantOf(noon), user, look, results); err != nil {
			t.Fatal(err)
		}
		if calls := s.calls.Load() - before; calls != 17 || results[0].Machine.Used(results[0].State, algo.InstantOf(noon)) != 16 {
			t.Errorf("got %d calls and the state %v, want one look and 16 settlements", calls, results[0])
		}
	})
}

// Settlements that begin while a Take probes the store wait for its end, at most until their deadline. If the probe timed
// out while the store answered an older call, the breaker does not count it, and one of the settlements probes next.
func TestStore_settle_probe(t *testing.T) {
	for name, test := range map[string]struct {
		takes       time.Duration // 0: the probe hangs
		fails, want error
		took        time.Duration
	}{
		"answer":        {10 * time.Millisecond, nil, nil, 20 * time.Millisecond},
		"no answer":     {time.Second, nil, limiter.ErrUnavailable, 100 * time.Millisecond},
		"error":         {50 * time.Millisecond, limiter.ErrUnavailable, limiter.ErrBreakerOpen, 50 * time.Millisecond},
		"an old answer": {0, nil, nil, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFailing()
				store, charges := opening(s, 1), charge(t, 1000)
				var all sync.WaitGroup
				if test.takes == 0 {
					s.takes = resilient.Pause + 20*time.Millisecond
					all.Go(func() { _ = direct(t.Context(), store, charges) })
					synctest.Wait()
				}
				s.takes = 0
				s.failWith(limiter.ErrUnavailable)
				_ = direct(t.Context(), store, charges)
				time.Sleep(resilient.Pause + 1)
				s.takes = test.takes
				s.failWith(test.fails)
				s.hang.Store(test.takes == 0)
				probing, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				all.Go(func() { _ = direct(probing, store, charges) })
				synctest.Wait()
				s.hang.Store(false)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				for range 2 {
					all.Go(func() {
						_, err := store.Settle(ctx, algo.InstantOf(noon), user, charges, make([]algo.Result, 1), 0)
						if took := time.Since(began); !errors.Is(err, test.want) || took != test.took {
							t.Errorf("got error %v after %s, want %v after %s", err, took, test.want, test.took)
						}
					})
				}
				all.Wait()
			})
		})
	}
}

// After a panic of the store, the breaker does not count the call as still in flight.
func TestStore_panic(t *testing.T) {
	s := newFailing()
	store, charges := opening(s, 1), charge(t, 10)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("got no panic, want the panic of the store")
			}
		}()
		_, _ = store.Take(t.Context(), algo.InstantOf(noon), user, charges, nil) // nil results make the store panic
	}()
	if err := direct(t.Context(), store, charges); !errors.Is(err, limiter.ErrBreakerOpen) {
		t.Errorf("after a panic: got error %v, want none", err)
	}
}

// If the store does not answer, a Limiter waits one deadline per pause. After the outage, normal service
// returns within a second, and earlier counts remain.
func TestLimiter_outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		l := storetest.Must(limiter.New(storetest.Must(resilient.New(s, resilient.Options{})), limiter.Options{Timeout: 50 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler)}))
		charges := charge(t, 100_000)
		take := func() (limiter.Decision, time.Duration) {
			begun := time.Now()
			d, err := l.Take(t.Context(), begun, charges)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			return d, time.Since(begun)
		}
		for range 10 {
			take()
		}
		s.hang.Store(true)
		outage, waited, requests, calls := time.Now(), time.Duration(0), 0, 0
		for time.Since(outage) < 10*time.Second {
			d, took := take()
			if took > 50*time.Millisecond || d.Reason != limiter.ReasonTimeout && d.Reason != limiter.ReasonBreaker ||
				(d.Reason == limiter.ReasonBreaker) != (took == 0) || (d.StoreCalls == 0) != (took == 0) {
				t.Fatalf("the request took %s, want at most 50 ms with a call and 0 without a call: %+v", took, d)
			}
			waited += took
			requests++
			calls += d.StoreCalls
			time.Sleep(time.Millisecond)
		}
		if most := int64(5 + 10*2); s.calls.Load()-10 > most || int64(calls) != s.calls.Load()-10 || requests < 8000 {
			t.Errorf("%d requests made %d calls, want at most %d; decisions report %d calls; they waited %s", requests, s.calls.Load()-10, most,
				calls, waited)
		}
		s.hang.Store(false)
		back := time.Now()
		for d, _ := take(); d.Reason != limiter.ReasonNone; d, _ = take() {
			requests++
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(back); took > time.Second {
			t.Errorf("normal service returned after %s, want at most 1 s", took)
		}
		if d, _ := take(); d.Remaining != 100_000-12-int64(requests) {
			t.Errorf("this process: got %d remaining, want %d: charges of the outage still count", d.Remaining, 100_000-12-requests)
		}
		other := storetest.Must(limiter.New(s, limiter.Options{}))
		if d, err := other.Peek(t.Context(), time.Now(), charges); err != nil || d.Remaining != 100_000-12 {
			t.Errorf("another process: got %d remaining, want %d: only charges before and after the outage count; %v", d.Remaining, 100_000-12, err)
		}
	})
}

// One call of a request with several subjects is the probe. If the probe succeeds, the request makes its
// other calls, so the first request after an outage has normal service. If the probe fails, the request
// makes no other call.
func TestLimiter_outage_subjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		s.takes = time.Millisecond // the other calls of a request begin during the first call
		l := storetest.Must(limiter.New(storetest.Must(resilient.New(s, resilient.Options{})), limiter.Options{Timeout: 50 * time.Millisecond,
			IntN: func(n int) int { return n / 2 }, Logger: slog.New(slog.DiscardHandler)}))
		one := charge(t, 1000)[0]
		charges := []limiter.Charge{one, one, one}
		charges[1].Subject, charges[2].Subject = limiter.User("43"), limiter.Global()
		take := func(what string, calls int, reason limiter.Reason) {
			t.Helper()
			begun, before := time.Now(), s.calls.Load()
			d, err := l.Take(t.Context(), begun, charges)
			if made := s.calls.Load() - before; err != nil || d.Allowed != (reason != limiter.ReasonBusy) || d.StoreCalls != calls ||
				int(made) != calls || d.Reason != reason || time.Since(begun) > 50*time.Millisecond {
				t.Errorf("%s: got %d calls after %s, want %d: %+v, %v", what, made, time.Since(begun), calls, d, err)
			}
		}
		take("before", 3, limiter.ReasonNone)
		s.hang.Store(true)
		take("first call of the outage", 3, limiter.ReasonTimeout)
		take("second", 3, limiter.ReasonTimeout)
		take("the breaker is open", 0, limiter.ReasonBreaker)
		time.Sleep(resilient.Pause + 1)
		s.hang.Store(true)
		d, err := l.Take(t.Context(), time.Now(), charges)
		if err != nil || d.StoreCalls != 1 {
			t.Errorf("a probe that fails: got %+v, error %v; want one store call", d, err)
		}
		s.hang.Store(false)
		time.Sleep(resilient.Pause + 1)
		take("the first call after it", 3, limiter.ReasonNone)
		if d, err := l.Take(t.Context(), time.Now(), charges); err != nil || d.Remaining != 1000-3-4 {
			t.Errorf("this process: got %d remaining, want %d: %v", d.Remaining, 1000-3-4, err)
		}
		other := storetest.Must(limiter.New(s, limiter.Options{}))
		if d, err := other.Peek(t.Context(), time.Now(), charges); err != nil || d.Remaining != 1000-3 {
			t.Errorf("another process: got %d remaining, want %d: %v", d.Remaining, 1000-3, err)
		}
		s.failWith(limiter.ErrUnavailable)
		for range 2 {
			_, _ = l.Take(t.Context(), time.Now(), charges)
		}
		// A throttled item is an answer too. The probe reads its item and repeats its call. The other
		// calls of the request then have time for at most two attempts.
		s.failWith(fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled))
		time.Sleep(resilient.Pause + 1)
		take("throttled", 10+2+2, limiter.ReasonBusy)
	})
}

// Many requests need the same lease or counter, and the store stops answering. All of them wait together
// for the first call. After that, only the request that makes a call waits for its deadline. The load is
// 16 concurrent requests every 10 ms for 10 s.
func TestLimiter_outage_waiting(t *testing.T) {
	for _, limit := range []limiter.Limit{
		{Spread: limiter.Spread{Lease: 5}},
		{Spread: limiter.Spread{Lease: 5}, OnError: limiter.OnErrorDeny},
		{Spread: limiter.Spread{Sync: time.Second}, OnError: limiter.OnErrorDeny},
		{Spread: limiter.Spread{Sync: time.Second}},
	} {
		t.Run(fmt.Sprintf("%+v %s", limit.Spread, limit.OnError), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit.Name, limit.Rate = "a", algo.Rate{Requests: algo.MaxRequests, Window: time.Hour}
				made, err := limiter.NewLimit(limit)
				if err != nil {
					t.Fatal(err)
				}
				s := newFailing()
				store := storetest.Must(resilient.New(s, resilient.Options{}))
				resilient.Set(store, resilient.Failures, 50*time.Millisecond)
				l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
				charges := []limiter.Charge{{Subject: user, Limit: made, Cost: 1}}
				requests := func() (waited, degraded int64) {
					var wg sync.WaitGroup
					var w, d atomic.Int64
					for range 16 {
						wg.Go(func() {
							begun := time.Now()
							decision, err := l.Take(t.Context(), begun, charges)
							took, busy := time.Since(begun), decision.Reason == limiter.ReasonBusy // the reason until the process detects the outage
							if err != nil || took != 0 && took != 50*time.Millisecond || decision.Failed != (!busy && decision.Reason != limiter.ReasonNone &&
								limit.OnError == limiter.OnErrorDeny) || busy && s.calls.Load() > resilient.Failures {
								t.Errorf("got %s, %+v, error %v; want 0 or 50 ms, and a busy subject only until the breaker opens", took, decision, err)
							}
							if took > 0 {
								w.Add(1)
							}
							if decision.Reason != limiter.ReasonNone {
								d.Add(1)
							}
						})
					}
					wg.Wait()
					return w.Load(), d.Load()
				}
				s.hang.Store(true) // the store hangs before the denial cache has any state
				if waited, degraded := requests(); waited != 16 || degraded != 16 || s.calls.Load() != 1 {
					t.Errorf("first requests: got %d that waited, %d degraded and %d calls, want 16, 16 and 1", waited, degraded, s.calls.Load())
				}
				outage, waits := time.Now(), int64(0)
				for time.Since(outage) < 10*time.Second {
					waited, degraded := requests()
					waits += waited
					if waited > 1 || degraded != 16 {
						t.Fatalf("%s after the start of the outage: %d waited and %d were degraded, want at most 1 and 16", time.Since(outage), waited,
							degraded)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if waits != s.calls.Load()-1 || waits > 4+10*2 {
					t.Errorf("%d requests waited for %d calls, want one request for each call and at most 24", waits, s.calls.Load()-1)
				}
				s.hang.Store(false)
				time.Sleep(resilient.Pause + 1)
				requests() // one of these requests calls the store, whose answer closes the breaker
				if waited, degraded := requests(); waited != 0 || degraded != 0 {
					t.Errorf("after the outage: %d waited and %d were degraded, want none", waited, degraded)
				}
			})
		})
	}
}

// opening returns a resilient store whose breaker opens after a number of failures.
func opening(s limiter.Store, failures uint32) *resilient.Store {
	store := storetest.Must(resilient.New(s, resilient.Options{}))
	resilient.Set(store, failures, 0)
	return store
}

func TestNew_options(t *testing.T) {
	for _, c := range []struct {
		field string
		resilient.Options
	}{
		{"Options.Timeout", resilient.Options{Timeout: -1}},
		{"Options.Timeout", resilient.Options{Timeout: limiter.MinWindow}},
	} {
		for _, store := range []limiter.Store{newFailing(), storetest.Must(memstore.New(memstore.Options{}))} {
			s, err := resilient.New(store, c.Options)
			wrong, ok := errors.AsType[*algo.FieldError](err)
			if s != nil || !ok || wrong.Field != c.field {
				t.Errorf("%+v: got %v, want an error of %s", c.Options, err, c.field)
			}
		}
	}
}

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

// failWrites is a store that answers looks only.
type failWrites struct {
	*failing
	panics bool
}

func (s failWrites) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	if s.panics {
		panic("a fault of the store")
	}
	if taken, err := s.failing.Take(ctx, now, subject, charges, results); charges[0].Cost == 0 {
		return taken, err
	}
	return false, limiter.ErrUnavailable
}

// asked asks a store of an outage, and compares the number of calls until nothing happens any more, the error and the
// time that the request waits.
type asked struct {
	t     *testing.T
	store *resilient.Store
	calls func() int64
}

func (a asked) want(what string, calls int64, wanted error, waits time.Duration) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 50*time.Millisecond)
	defer cancel()
	begun, before := time.Now(), a.calls()
	err := direct(ctx, a.store, charge(a.t, 1000))
	took := time.Since(begun)
	synctest.Wait()
	if got := a.calls() - before; got != calls || !errors.Is(err, wanted) || took != waits {
		a.t.Fatalf("%s: got %d store calls and error %v after %s, want %d, %v and %s", what, got, err, took, calls, wanted, waits)
	}
}

// With Background, no request waits for a store that hangs. When a look shows that the store answers, the next request
// probes it.
func TestBackground(t *testing.T) {
	const none, deadline = time.Duration(0), 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		a := asked{t, storetest.Must(resilient.New(s, resilient.Options{Background: true})), s.calls.Load}
		a.store.ConnectTimeout(algo.InstantOf(noon)) // the first decision begins
		a.want("before", 1, nil, none)
		s.hang.Store(true)
		for range resilient.Failures {
			a.want("failure", 1, context.DeadlineExceeded, deadline)
		}
		for range 3 {
			a.want("in the pause", 0, limiter.ErrBreakerOpen, none)
			time.Sleep(resilient.Pause + 1)
			a.want("after the pause", 1, limiter.ErrBreakerOpen, none)
			a.want("a look is in flight", 0, limiter.ErrBreakerOpen, none)
			time.Sleep(resilient.Pause + 1)
			a.want("the pause begins at the end of the look", 0, limiter.ErrBreakerOpen, none)
		}
		s.hang.Store(false)
		time.Sleep(resilient.Pause + 1)
		a.want("the store works again", 1, limiter.ErrBreakerOpen, none)
		if got := a.store.ConnectTimeout(algo.InstantOf(noon.Add(time.Second))); got != 0 {
			t.Errorf("time to connect after the look: got %s, want 0s", got)
		}
		a.want("the probe", 1, nil, none)
		a.want("after it", 1, nil, none)
		results := make([]algo.Result, 1)
		look := charge(t, 1000)
		look[0].Cost = 0
		if _, err := s.Store.Take(t.Context(), algo.InstantOf(noon), user, look, results); err != nil || results[0].Machine.Used(results[0].State,
			algo.InstantOf(noon)) != 3 {
			t.Errorf("got the state %+v and error %v, want the three charges that succeeded", results[0], err)
		}
	})
}

// If no request comes for two pauses, the next request probes the store: a server with few requests has normal service
// a second after an outage.
func TestBackground_rare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		a := asked{t, storetest.Must(resilient.New(s, resilient.Options{Background: true})), s.calls.Load}
		s.failWith(limiter.ErrUnavailable)
		for range resilient.Failures {
			a.want("failure", 1, limiter.ErrUnavailable, 0)
		}
		time.Sleep(2 * resilient.Pause)
		a.want("a second later", 1, limiter.ErrUnavailable, 0)
		a.want("the probe has failed", 0, limiter.ErrBreakerOpen, 0)
		s.failWith(nil)
		time.Sleep(2 * resilient.Pause)
		a.want("the store works again", 1, nil, 0)
	})
}

// A long look is in flight for more than two pauses. No request probes the store meanwhile.
func TestBackground_longLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		store, charges := storetest.Must(resilient.New(s, resilient.Options{Background: true, Timeout: 900 * time.Millisecond})), charge(t, 1000)
		s.failWith(limiter.ErrUnavailable)
		for range resilient.Failures {
			_ = direct(t.Context(), store, charges)
		}
		s.failWith(nil)
		s.hang.Store(true)
		time.Sleep(resilient.Pause + 1)
		for begun, before := time.Now(), s.calls.Load(); time.Since(begun) < 900*time.Millisecond; time.Sleep(100 * time.Millisecond) {
			if err := direct(t.Context(), store, charges); !errors.Is(err, limiter.ErrBreakerOpen) || s.calls.Load() > before+1 {
				t.Errorf("%s after the start of the look: got error %v and %d calls, want %v and at most the look", time.Since(begun), err,
					s.calls.Load()-before, limiter.ErrBreakerOpen)
			}
			synctest.Wait()
		}
		time.Sleep(resilient.Pause)
	})
}

// A store that answers looks and fails charges gets one look and one charge after a pause.
func TestBackground_writesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := failWrites{failing: newFailing()}
		a := asked{t, storetest.Must(resilient.New(s, resilient.Options{Background: true})), s.calls.Load}
		for range resilient.Failures {
			a.want("failure", 1, limiter.ErrUnavailable, 0)
		}
		for range 3 {
			time.Sleep(resilient.Pause + 1)
			a.want("the look", 1, limiter.ErrBreakerOpen, 0)
			a.want("the probe", 1, limiter.ErrUnavailable, 0)
			a.want("the probe has failed", 0, limiter.ErrBreakerOpen, 0)
		}
	})
}

// A panic during a look ends no process. The request that probes the store next panics.
func TestBackground_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &failWrites{failing: newFailing()}
		a := asked{t, storetest.Must(resilient.New(s, resilient.Options{Background: true})), s.calls.Load}
		for range resilient.Failures {
			a.want("failure", 1, limiter.ErrUnavailable, 0)
		}
		s.panics = true
		time.Sleep(resilient.Pause + 1)
		a.want("the look", 0, limiter.ErrBreakerOpen, 0)
		defer func() {
			if recover() == nil {
				t.Error("the probe: got no panic")
			}
		}()
		a.want("the probe", 0, nil, 0)
	})
}

// A settlement probes the store itself, also while a look is in flight, so it is not lost.
func TestBackground_settle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		a := asked{t, storetest.Must(resilient.New(s, resilient.Options{Background: true})), s.calls.Load}
		s.failWith(limiter.ErrUnavailable)
		for range resilient.Failures {
			a.want("failure", 1, limiter.ErrUnavailable, 0)
		}
		s.failWith(nil)
		s.hang.Store(true)
		time.Sleep(resilient.Pause + 1)
		a.want("the look", 1, limiter.ErrBreakerOpen, 0)
		s.hang.Store(false)
		charges := charge(t, 1000)
		charges[0].Force = true
		if _, err := a.store.Settle(t.Context(), algo.InstantOf(noon), user, charges, make([]algo.Result, 1), 0); err != nil {
			t.Errorf("settlement: got error %v, want none", err)
		}
		a.want("after it", 1, nil, 0)
		time.Sleep(time.Second) // the look ends; it fails, and does not open the breaker
		a.want("after the look", 1, nil, 0)
	})
}

// Of 2,000 requests in 20 s on a store that hangs, five wait for it. On a store that works again, all have normal service
// within a second.
func TestBackground_outage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFailing()
		l := storetest.Must(limiter.New(storetest.Must(resilient.New(s, resilient.Options{Background: true})),
			limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
		charges := charge(t, 100_000)
		take := func() (limiter.Reason, time.Duration) {
			begun := time.Now()
			d, err := l.Take(t.Context(), begun, charges)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			took := time.Since(begun)
			time.Sleep(10*time.Millisecond - took%(10*time.Millisecond))
			return d.Reason, took
		}
		take()
		s.hang.Store(true)
		waited := ""
		for i := range 2000 {
			if _, took := take(); took > 0 {
				waited += fmt.Sprint(i, ":", took, " ")
			}
		}
		if want := "0:50ms 1:50ms 2:50ms 3:50ms 4:50ms "; waited != want {
			t.Errorf("requests that waited: got %s, want %s", waited, want)
		}
		s.hang.Store(false)
		back := time.Now()
		for reason, _ := take(); reason != limiter.ReasonNone; reason, _ = take() {
			if time.Since(back) > time.Second {
				t.Fatal("no normal service after a second")
			}
		}
	})
}
