package resilient_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

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
