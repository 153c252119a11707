package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// paced is a store with slow calls. It records each call and the number of calls in flight.
type paced struct {
	*remote
	takes  time.Duration
	answer func(call int, ctx context.Context) error // if it returns an error, this error replaces the store's answer

	mu       sync.Mutex
	inFlight int
	most     int
	costs    [][]int64 // costs that each call charged
}

func newPaced() *paced { return &paced{remote: newRemote(), takes: 10 * time.Millisecond} }

func (p *paced) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	var costs []int64
	for _, c := range charges {
		costs = append(costs, c.Cost)
	}
	p.mu.Lock()
	p.inFlight++
	p.most = max(p.most, p.inFlight)
	p.costs = append(p.costs, costs)
	call := len(p.costs)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.inFlight--
	}()
	time.Sleep(p.takes)
	if p.answer != nil {
		if err := p.answer(call, ctx); err != nil {
			return false, err
		}
	}
	return p.remote.Take(ctx, now, s, charges, results)
}

func over(store limiter.Store, timeout time.Duration) *limiter.Limiter {
	return storetest.Must(limiter.New(store, limiter.Options{Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}))
}

// oneByOne starts n concurrent requests and returns their decisions. Each request starts when all
// earlier requests wait or have their decision.
func oneByOne(n int, request func(i int) limiter.Decision) []limiter.Decision {
	decisions := make([]limiter.Decision, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { decisions[i] = request(i) })
		synctest.Wait()
	}
	wg.Wait()
	return decisions
}

// 64 concurrent requests make two store calls, although the limit has room for only 57 of them. Each
// request gets the state after its own charge.
func TestGroup(t *testing.T) {
	for _, rate := range []algo.Rate{
		{Algorithm: algo.FixedWindow, Requests: 57, Window: time.Hour},
		{Algorithm: algo.SlidingWindow, Requests: 57, Window: time.Hour},
		{Algorithm: algo.TokenBucket, Requests: 57, Window: time.Hour},
		{Algorithm: algo.LeakyBucket, Requests: 57, Window: time.Hour},
		{Algorithm: algo.SlidingLog, Requests: 57, Window: time.Hour},
	} {
		t.Run(string(rate.Algorithm), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newPaced()
				l, begun := over(store, 0), time.Now()
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: rate})}
				calls := 0
				for i, d := range oneByOne(64, func(int) limiter.Decision { return takeAt(t, l, begun, c) }) {
					calls += d.StoreCalls
					if d.Allowed != (i < 57) || d.Remaining != int64(max(0, 56-i)) || d.Reason != limiter.ReasonNone || (d.RetryAfter > 0) == d.Allowed {
						t.Errorf("request %d: got %+v, want allowed %t and %d remaining", i+1, d, i < 57, max(0, 56-i))
					}
					if want := time.Duration(i) * rate.Window / 57; rate.Algorithm == algo.LeakyBucket && d.Allowed &&
						(d.Delay-want).Abs() > time.Microsecond {
						t.Errorf("request %d: got a delay of %s, want %s", i+1, d.Delay, want)
					}
				}
				if took := time.Since(begun); took != 20*time.Millisecond || store.most != 1 || len(store.costs) != 2 || calls != 2 ||
					l.InFlight() != 0 {
					t.Errorf("got a time of %s, at most %d calls at once, costs %v, %d calls in the decisions, %d in flight; want 20 ms, 1, two calls, "+
						"2, 0", took, store.most, store.costs, calls, l.InFlight())
				}
			})
		})
	}
}

// Two limits of one subject can have different versions, as after a new document in which one limit changed. Their
// requests share calls.
func TestGroup_versions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		rate := algo.Rate{Requests: 100, Window: time.Minute}
		a, b := limit(t, limiter.Limit{Name: "a", Rate: rate, Version: 1}), limit(t, limiter.Limit{Name: "b", Rate: rate, Version: 2})
		for i, d := range oneByOne(40, func(int) limiter.Decision {
			return takeAt(t, l, begun, limiter.Charge{Subject: user, Cost: 1, Limit: a}, limiter.Charge{Subject: user, Cost: 1, Limit: b})
		}) {
			if !d.Allowed {
				t.Errorf("request %d: got %+v, want it allowed", i+1, d)
			}
		}
		if want := [][]int64{{1, 1}, {39, 39}}; !slices.EqualFunc(store.costs, want, slices.Equal) {
			t.Errorf("got calls of %v, want %v", store.costs, want)
		}
	})
}

// Another process takes the remaining quota, so the store refuses the sum of the costs. The next call
// charges half of the requests that still fit. If the store refuses again and again, the remaining
// requests are denied because their subject is busy.
func TestGroup_otherProcess(t *testing.T) {
	for _, c := range []struct {
		limit    int64
		requests int
		writes   []int64 // costs that another process charges before each call
		allowed  int
		calls    int
		busy     int
	}{
		{10, 12, nil, 10, 2, 0}, {10, 12, []int64{0, 3}, 7, 4, 0}, {10, 12, []int64{0, 3, 2}, 5, 4, 0}, {10, 12, []int64{0, 9}, 1, 2, 0},
		{10, 12, []int64{0, 3, 6}, 1, 3, 0},
		{200, 81, []int64{0, 139, 32, 15, 7, 4}, 1, 6, 80},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newPaced()
			l, begun := over(store, 0), time.Now()
			charge := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", c.limit)}
			store.answer = func(call int, ctx context.Context) error {
				theirs := charge
				theirs.Cost = 0
				if call <= len(c.writes) {
					theirs.Cost = c.writes[call-1]
				}
				_, err := store.remote.Take(ctx, algo.InstantOf(begun), user, []limiter.Charge{theirs}, make([]algo.Result, 1))
				return err
			}
			allowed, busy := 0, 0
			for _, d := range oneByOne(c.requests, func(int) limiter.Decision { return takeAt(t, l, begun, charge) }) {
				if d.Allowed {
					allowed++
				}
				if d.Reason == limiter.ReasonBusy {
					busy++
				}
			}
			if allowed != c.allowed || busy != c.busy || len(store.costs) != c.calls {
				t.Errorf("writes %v by another process: %d allowed, %d busy, calls of %v; want %+v", c.writes, allowed, busy, store.costs, c)
			}
		})
	}
}

// A request whose deadline passes while its call is in flight stays charged. The call continues until the
// latest deadline of its requests.
func TestGroup_leaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		store.takes = 30 * time.Millisecond
		l := over(store, 50*time.Millisecond)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		store.answer = func(_ int, ctx context.Context) error { return ctx.Err() }
		decisions := make([]limiter.Decision, 3)
		var wg sync.WaitGroup
		for i, arrives := range []time.Duration{0, 1, 20} { // the second call is in flight from 30 to 60 ms
			wg.Go(func() {
				time.Sleep(arrives * time.Millisecond)
				begun := time.Now()
				decisions[i] = takeAt(t, l, begun, c)
				if took := time.Since(begun); took > 50*time.Millisecond {
					t.Errorf("request %d took %s, want at most 50 ms", i+1, took)
				}
			})
		}
		wg.Wait()
		if d := decisions; !d[0].Allowed || d[1].Reason != limiter.ReasonBusy || !d[2].Allowed || d[2].Remaining != 7 {
			t.Errorf("got %+v, want the second request busy, and the others allowed with 7 remaining", d)
		}
		if d := mustPeek(t, l, time.Now(), c); d.Remaining != 7 || l.InFlight() != 0 {
			t.Errorf("after all requests: got %+v and %d calls in flight, want 7 remaining and 0", d, l.InFlight())
		}
	})
}

// Requests with different versions of the rules, or with distant instants, do not share a call. All of
// them get an answer.
func TestGroup_apart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		version := func(v int64) *limiter.Limit {
			return limit(t, limiter.Limit{Name: "a", Version: v, Rate: algo.Rate{Requests: 10 * v, Window: time.Hour, Algorithm: algo.FixedWindow}})
		}
		old, later := version(1), version(2)
		for i, d := range oneByOne(9, func(i int) limiter.Decision {
			c := limiter.Charge{Subject: user, Cost: 1, Limit: old}
			if i%2 == 1 {
				c.Limit = later
			}
			return takeAt(t, l, begun.Add(time.Duration(i/3)*time.Minute), c)
		}) {
			if !d.Allowed && d.Reason != limiter.ReasonBusy {
				t.Errorf("request %d: got %+v, want an admission or a busy subject", i+1, d)
			}
		}
		for _, costs := range store.costs {
			if len(costs) != 1 || costs[0] > 2 {
				t.Errorf("got calls of %v, want one charge of at most 2 in each", store.costs)
			}
		}
		if store.most != 1 || l.InFlight() != 0 {
			t.Errorf("got %d calls at once and %d in flight, want 1 and 0", store.most, l.InFlight())
		}
	})
}

// A clamp is reported once, although several requests get the clamped state.
func TestGroup_clamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begun := newPaced(), time.Now()
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.SlidingLog,
			Requests: 5, Window: time.Minute}})}
		for _, at := range []time.Duration{time.Hour, 0} { // a clock that is an hour ahead, and a clock that shows it
			takeAt(t, over(store, 0), begun.Add(at), c)
		}
		l, clamped := over(store, 0), 0
		at := begun.Add(c.Limit.Machine().Horizon() + algo.MaxSkew)
		for i, d := range oneByOne(4, func(int) limiter.Decision { return takeAt(t, l, at, c) }) {
			clamped += d.Clamped
			if d.Allowed {
				t.Errorf("request %d: got %+v, want a refusal by the clamped state", i+1, d)
			}
		}
		if clamped != 1 {
			t.Errorf("got %d clamps in the decisions, want 1", clamped)
		}
	})
}

// A request of a group is refunded after its charge has leaked. The bucket has been refunded and charged since, and
// happens to have the TAT that it had after the charge of the request. The refund returns nothing.
func TestGroup_refund_leaked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		c := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 100,
			Window: 100 * time.Second}})}
		hold := func(cost int64) *limiter.Receipt {
			charge := c
			charge.Cost = cost
			_, receipt, err := l.TakeRefundable(ctx, begun, []limiter.Charge{charge})
			if err != nil {
				t.Error(err)
			}
			return receipt
		}
		first := hold(20)
		receipts := make([]*limiter.Receipt, 3)
		oneByOne(len(receipts), func(i int) limiter.Decision { receipts[i] = hold(1); return limiter.Decision{} })
		first.Refund(ctx, begun)
		later := begun.Add(5 * time.Second) // the three other charges have leaked
		c.Cost = 17
		takeAt(t, l, later, c)
		if got := receipts[1].Refund(ctx, later); got.Given != 0 {
			t.Errorf("got %+v, want nothing refunded", got)
		}
		if d := mustPeek(t, l, later, c); d.Remaining != 100-17 {
			t.Errorf("got %d remaining, want 83", d.Remaining)
		}
	})
}

// Requests of two windows share a call. The call counts in the later window.
func TestGroup_instant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l := over(store, 0)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: 10, Window: time.Hour}})}
		oneByOne(3, func(i int) limiter.Decision {
			return takeAt(t, l, noon.Add(time.Duration(2*i-3)*100*time.Millisecond), c) // the last one is after noon
		})
		if n := used(t, store, noon.Add(time.Second), c); n != 2 || len(store.costs) != 2 {
			t.Errorf("got a count of %d after calls of %v, want 2 after two calls", n, store.costs)
		}
	})
}

// A request waits with a lease that no longer fits. The state still has room for the request itself, so it is charged
// without the lease, and later requests have no lease to use.
func TestGroup_leases_givenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l := over(store, 0)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: 100, Window: time.Hour}, Spread: limiter.Spread{Lease: 64}})}
		for range 7 { // leases of 1, 2 and 4
			take(t, l, c)
		}
		theirs := c
		theirs.Cost = 90
		if _, err := store.remote.Take(ctx, algo.InstantOf(noon), user, []limiter.Charge{theirs}, make([]algo.Result, 1)); err != nil {
			t.Fatal(err)
		}
		store.costs = nil
		decisions := oneByOne(2, func(i int) limiter.Decision {
			if i == 0 {
				return mustPeek(t, l, noon, c)
			}
			return take(t, l, c)
		})
		if want := [][]int64{{0}, {1}}; !decisions[1].Allowed || !slices.EqualFunc(store.costs, want, slices.Equal) {
			t.Errorf("got %+v after calls of %v, want it allowed after calls of %v", decisions[1], store.costs, want)
		}
		more := 0
		for range 5 { // a lease of 8, which the call did not charge, would admit all
			if take(t, l, c).Allowed {
				more++
			}
		}
		if more != 2 {
			t.Errorf("got %d more admissions, want the 2 that the limit has left", more)
		}
	})
}

// The call of a group has a single request and times out, while another request waits. The subject then counts as
// busy.
func TestGroup_timeouts_arrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		store.answer = func(call int, _ context.Context) error {
			if call > 1 {
				return errHangs
			}
			return nil
		}
		l := over(store, 0)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		decisions := make([]limiter.Decision, 3)
		var wg sync.WaitGroup
		for i, arrives := range []time.Duration{0, 5, 15} { // the second call is in flight from 10 to 20 ms
			wg.Go(func() {
				time.Sleep(arrives * time.Millisecond)
				decisions[i] = takeAt(t, l, noon, c)
			})
		}
		wg.Wait()
		for i, want := range []limiter.Reason{limiter.ReasonNone, limiter.ReasonBusy, limiter.ReasonTimeout} {
			if d := decisions[i]; d.Reason != want {
				t.Errorf("request %d: got %+v, want reason %q", i+1, d, want)
			}
		}
	})
}

// If the calls of many requests have no answer in time while the store answers others, their subject is busy, and it comes
// under pressure: the next call takes a lease, which serves the requests that follow. In an outage, it does not.
func TestGroup_crowdedPressure(t *testing.T) {
	for name, calls := range map[string]struct{ from, to, down int }{ // the calls without an answer, and those before the many requests
		"busy": {3, 99, 0}, "the first call": {2, 2, 0}, "outage": {2, 99, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newPaced()
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", OnError: limiter.OnErrorAllow,
					Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 10_000, Window: time.Hour}})}
				l := over(store, 50*time.Millisecond)
				store.answer = func(call int, ctx context.Context) error {
					switch {
					case call < calls.from || call > calls.to:
						return nil
					case call > calls.down+2:
						<-ctx.Done()
					}
					return fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.DeadlineExceeded)
				}
				for range 1 + calls.down {
					takeAt(t, l, time.Now(), c)
				}
				begun := time.Now()
				busy := 0
				for _, d := range oneByOne(8, func(int) limiter.Decision { return takeAt(t, l, begun, c) }) {
					if d.Reason == limiter.ReasonBusy {
						busy++
					}
				}
				synctest.Wait() // the requests can leave at their deadline before their call ends, which is at the same time
				store.answer = nil
				at := time.Now()
				takeAt(t, l, at, c)
				before := len(store.costs)
				d := takeAt(t, l, at, c)
				if more, down := len(store.costs)-before, calls.down > 0; (busy == 0) != down || !d.Allowed || (more > 0) != down {
					t.Errorf("after %d busy requests: got %+v and %d calls, want the lease of the request before only if busy", busy, d, more)
				}
			})
		})
	}
}
