package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// A request whose cost does not fit waits for the requests before it. A later request with a smaller cost
// is admitted meanwhile.
func TestGroup_costs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		a, b := perMinute(t, "a", 10), perMinute(t, "b", 4)
		costs := []int64{1, 2, 20, 3, 5, 2, 1}
		decisions := oneByOne(len(costs), func(i int) limiter.Decision {
			charges := []limiter.Charge{{Subject: user, Cost: costs[i], Limit: a}}
			if i == 3 {
				charges = append(charges, limiter.Charge{Subject: user, Cost: 1, Limit: b})
			}
			return takeAt(t, l, begun, charges...)
		})
		// the limit of 10 admits 1 + 2 + 3 + 2 + 1 = 9; the costs 20 and 5 do not fit
		for i, want := range []bool{true, true, false, true, false, true, true} {
			if decisions[i].Allowed != want {
				t.Errorf("cost %d: got %+v, want allowed %t", costs[i], decisions[i], want)
			}
		}
		if want := [][]int64{{1}, {8, 1}}; !slices.EqualFunc(store.costs, want, slices.Equal) {
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

// A request of cost 0 waits in the group and causes no extra store call. It uses the state that the last
// call or the next call returns.
func TestGroup_costZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		a, b := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}, limiter.Charge{Subject: user, Cost: 1,
			Limit: perMinute(t, "b", 20)}
		decisions := oneByOne(5, func(i int) limiter.Decision {
			switch i {
			case 1:
				return mustPeek(t, l, begun, a)
			case 3:
				return mustPeek(t, l, begun, b)
			}
			return takeAt(t, l, begun, a)
		})
		for i, want := range []int64{9, 9, 8, 20, 7} {
			if d := decisions[i]; !d.Allowed || d.Remaining != want {
				t.Errorf("request %d: got %+v, want %d to remain", i+1, d, want)
			}
		}
		if want := [][]int64{{1}, {2, 0}}; !slices.EqualFunc(store.costs, want, slices.Equal) {
			t.Errorf("got calls of %v, want %v", store.costs, want)
		}
	})
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

// A request whose deadline passes before its call is sent is not charged.
func TestGroup_leaving_unsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{remote: newRemote(), first: 900 * time.Millisecond}
		l := storetest.Must(limiter.New(store, limiter.Options{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}))
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		var first sync.WaitGroup
		first.Go(func() { takeAt(t, l, time.Now(), c) })
		synctest.Wait()
		store.answers = true
		takeAt(t, l, time.Now(), limiter.Charge{Subject: other, Cost: 1, Limit: c.Limit}) // opens the connections
		begun := time.Now()
		for i, d := range oneByOne(5, func(int) limiter.Decision { return takeAt(t, l, begun, c) }) {
			if d.Reason != limiter.ReasonBusy || d.StoreCalls != 0 {
				t.Errorf("request %d: got %+v, want a busy subject without a store call", i+1, d)
			}
		}
		if took := time.Since(begun); took != 50*time.Millisecond {
			t.Errorf("the requests waited %s, want 50 ms", took)
		}
		first.Wait()
		synctest.Wait()
		if d := mustPeek(t, l, time.Now(), c); d.Remaining != 10 || l.InFlight() != 0 {
			t.Errorf("after all requests: got %+v and %d calls in flight, want 10 remaining and 0", d, l.InFlight())
		}
	})
}

// The timeout of a single request counts as an outage, unless the store answers other requests meanwhile.
// If a call for several requests times out, their subject counts as busy. After five such calls in a row,
// the store counts as down.
func TestGroup_timeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hanging{remote: newRemote()}
		l := over(store, 50*time.Millisecond)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		together := func(n int, want limiter.Reason) {
			t.Helper()
			synctest.Wait() // lets abandoned calls end
			for i, d := range oneByOne(n, func(int) limiter.Decision { return takeAt(t, l, time.Now(), c) }) {
				if d.Reason != want {
					t.Errorf("request %d of %d: got %+v, want %s", i+1, n, d, want)
				}
			}
		}
		together(1, limiter.ReasonTimeout)
		together(2, limiter.ReasonBusy)
		var wg sync.WaitGroup
		var d limiter.Decision
		wg.Go(func() { d = takeAt(t, l, time.Now(), c) })
		synctest.Wait()
		store.answers = true
		takeAt(t, l, time.Now(), limiter.Charge{Subject: other, Cost: 1, Limit: c.Limit})
		store.answers = false
		wg.Wait()
		if d.Reason != limiter.ReasonBusy {
			t.Errorf("while the store answers other subjects: got %+v, want a busy subject", d)
		}
		for range 4 {
			together(3, limiter.ReasonBusy)
		}
		// The fifth call in a row without an answer, so the store now counts as down.
		together(1, limiter.ReasonTimeout)
		together(3, limiter.ReasonTimeout)
	})
}

// If the call of a group panics, each of its requests panics. Later requests work.
func TestGroup_panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l := over(store, 0)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		store.answer = func(call int, _ context.Context) error {
			if call < 3 {
				panic("broken")
			}
			return nil
		}
		oneByOne(5, func(i int) limiter.Decision {
			got := caught(func() { takeAt(t, l, time.Now(), c) })
			if !strings.Contains(got, "broken") || i > 0 && !strings.Contains(got, "group_test.go") {
				t.Errorf("request %d: got %q, want the panic of the store and its stack", i+1, got)
			}
			return limiter.Decision{}
		})
		if d := takeAt(t, l, time.Now(), c); d.Remaining != 9 || d.Reason != limiter.ReasonNone || l.InFlight() != 0 {
			t.Errorf("got %+v, %d in flight; want 9 remaining, 0", d, l.InFlight())
		}
	})
}

// blank is a store that charges groups and returns no states.
type blank struct{ *paced }

func (b blank) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	taken, err := b.paced.Take(ctx, now, s, charges, results)
	if charges[0].Cost > 1 {
		clear(results)
	}
	return taken, err
}

// An answer without a state is a failure of the store. No request panics, and all waiting requests get
// an answer.
func TestGroup_blank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := storetest.Must(limiter.New(blank{newPaced()}, limiter.Options{Logger: slog.New(slog.DiscardHandler)}))
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		for i, d := range oneByOne(5, func(int) limiter.Decision { return takeAt(t, l, time.Now(), c) })[1:] {
			if !d.Allowed || d.Reason != limiter.ReasonUnavailable {
				t.Errorf("request %d: got %+v, want on_error to decide", i+2, d)
			}
		}
		if l.InFlight() != 0 {
			t.Errorf("got %d calls in flight, want 0", l.InFlight())
		}
	})
}

// If a store call fails, all requests in the call get its error.
func TestGroup_failure(t *testing.T) {
	for err, want := range map[error]limiter.Reason{
		limiter.ErrUnavailable: limiter.ReasonUnavailable, limiter.ErrBreakerOpen: limiter.ReasonBreaker,
		limiter.ErrContended: limiter.ReasonBusy, limiter.ErrItemThrottled: limiter.ReasonBusy,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newPaced()
			store.answer = func(int, context.Context) error { return err }
			l := over(store, 0)
			c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
			for i, d := range oneByOne(9, func(int) limiter.Decision { return takeAt(t, l, time.Now(), c) }) {
				if d.Reason != want || d.Allowed != (want != limiter.ReasonBusy) {
					t.Errorf("request %d: got %+v, want %s", i+1, d, want)
				}
			}
			calls := store.costs
			if errors.Is(err, limiter.ErrItemThrottled) { // do not count reads and repeated calls
				calls = slices.DeleteFunc(slices.Clone(calls), func(costs []int64) bool { return costs[0] == 0 })
				calls = slices.CompactFunc(calls, slices.Equal)
			}
			if fmt.Sprint(calls) != "[[1] [8]]" {
				t.Errorf("%v: got calls of %v, want [[1] [8]]", err, store.costs)
			}
		})
	}
}

// A request that has its answer sees its own refund. The state that the group knows is older, so a later request does
// not join the group.
func TestGroup_afterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10_000)}
		for i := range 2_000 {
			var again limiter.Decision
			oneByOne(2, func(i int) limiter.Decision {
				d := takeAt(t, l, begun, c)
				if i == 1 {
					again = mustPeek(t, l, begun, c)
				}
				return d
			})
			if again.StoreCalls != 1 {
				t.Fatalf("round %d: got %d calls for a read after the answer, want 1", i+1, again.StoreCalls)
			}
		}
	})
}

// Each request of a group refunds only its own cost. Windows and logs refund the whole cost. A bucket
// never gets more quota than it would have without these requests.
func TestGroup_refund(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow, algo.SlidingLog, algo.TokenBucket} {
		t.Run(string(a), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newPaced()
				l, begun := over(store, 0), time.Now()
				c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: a, Requests: 100,
					Window: time.Hour}})}
				receipts := make([]*limiter.Receipt, 8)
				oneByOne(len(receipts), func(i int) limiter.Decision {
					cost := c
					cost.Cost = int64(i + 1)
					d, receipt, err := l.TakeRefundable(ctx, begun, []limiter.Charge{cost})
					receipts[i] = receipt
					if err != nil {
						t.Error(err)
					}
					return d
				})
				left := int64(36) // usage before the refunds: 1 + 2 + ... + 8
				for _, i := range []int{7, 3, 0, 5, 1, 6, 2, 4} {
					given := receipts[i].Refund(ctx, begun).Given
					// A bucket refunds the whole cost only to the last request, because no later charge
					// has used the bucket.
					if a != algo.TokenBucket || i == 7 {
						left -= int64(i + 1)
					} else if given > 0 {
						left = min(left, 100-mustPeek(t, l, begun, c).Remaining)
					}
					if d := mustPeek(t, l, begun, c); d.Remaining != 100-left || given == 0 && a != algo.TokenBucket {
						t.Errorf("after the refund of %d: got %d remaining, want %d", i+1, d.Remaining, 100-left)
					}
				}
				if d := mustPeek(t, l, begun, c); d.Remaining > 100 || len(store.costs) < 2 {
					t.Errorf("after all refunds: got %+v and calls of %v, want at most 100 remaining and at least two calls", d, store.costs)
				}
			})
		})
	}
}

// A forced charge makes a separate call. Requests in the group are still admitted up to the limit.
func TestGroup_force(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		c := limiter.Charge{Subject: other, Cost: 1, Limit: perMinute(t, "a", 10)}
		allowed := 0
		for i, d := range oneByOne(12, func(i int) limiter.Decision {
			if i == 3 {
				forced := c
				forced.Cost, forced.Force = 4, true
				return takeAt(t, l, begun, forced)
			}
			return takeAt(t, l, begun, c)
		}) {
			if d.Allowed && i != 3 {
				allowed++
			}
		}
		if d := mustPeek(t, l, begun, c); allowed != 6 || d.Remaining != 0 || len(store.costs) > 6 {
			t.Errorf("got %d allowed, %d remaining and store calls with costs %v, want 6, 0 and at most 6 calls", allowed, d.Remaining, store.costs)
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

// If the other requests of a group leave no room for a lease, the call charges only the cost of the
// request.
func TestGroup_leases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l, begun := over(store, 0), time.Now()
		leased := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Requests: 100, Window: time.Hour, Algorithm: algo.FixedWindow},
			Spread: limiter.Spread{Lease: 64}})
		plain := limit(t, limiter.Limit{Name: "b", Rate: algo.Rate{Requests: 1000, Window: time.Hour, Algorithm: algo.FixedWindow}})
		allowed := 0
		for range 20 {
			for i, d := range oneByOne(32, func(i int) limiter.Decision {
				c := limiter.Charge{Subject: user, Cost: 1, Limit: leased}
				if i%4 == 3 {
					c.Limit = plain
				}
				return takeAt(t, l, begun, c)
			}) {
				if d.Allowed && i%4 != 3 {
					allowed++
				}
				if i%4 == 3 && !d.Allowed {
					t.Errorf("the limit without a lease: got %+v, want an admission", d)
				}
			}
		}
		if d := mustPeek(t, l, begun, limiter.Charge{Subject: user, Cost: 1, Limit: leased}); allowed != 100 || d.Remaining != 0 ||
			store.most != 1 {
			t.Errorf("got %d allowed, %d remaining and %d calls at once, want 100, 0 and 1", allowed, d.Remaining, store.most)
		}
	})
}

// A request whose deadline is so close that the answer would come too late is not charged.
func TestGroup_leaving_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		store.takes = 48 * time.Millisecond
		l, begun := over(store, 50*time.Millisecond), time.Now()
		c := limiter.Charge{Subject: user, Cost: 1, Limit: perMinute(t, "a", 10)}
		decisions := oneByOne(3, func(int) limiter.Decision { return takeAt(t, l, begun, c) }) // when the first call returns, 2 ms are left
		synctest.Wait()
		if d := decisions; !d[0].Allowed || d[1].Reason != limiter.ReasonBusy || d[2].Reason != limiter.ReasonBusy {
			t.Errorf("got %+v, want the first request allowed and the others busy", d)
		}
		if n := used(t, store, begun, c); n != 1 || len(store.costs) != 1 {
			t.Errorf("got a count of %d and calls of %v, want 1 and one call", n, store.costs)
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

// If the store refuses the sum of several costs, the back-off applies to all of these costs, and so to the smallest.
func TestGroup_backOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newPaced()
		l := storetest.Must(limiter.New(store, limiter.Options{IntN: func(n int) int { return n - 1 }})) // the longest back-off
		bucket := limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Burst: 60, Window: time.Second}})
		charge := func(cost int64) limiter.Charge { return limiter.Charge{Subject: user, Limit: bucket, Cost: cost} }
		at := noon
		store.answer = func(call int, ctx context.Context) error {
			if call%2 == 0 { // another process takes the quota before the call of the group
				_, err := store.remote.Take(ctx, algo.InstantOf(at), user, []limiter.Charge{charge(60)}, make([]algo.Result, 1))
				return err
			}
			return nil
		}
		for range 3 {
			for i, d := range oneByOne(3, func(i int) limiter.Decision {
				if i == 0 {
					return mustPeek(t, l, at, charge(1))
				}
				return takeAt(t, l, at, charge([]int64{0, 50, 5}[i]))
			}) {
				if d.Allowed != (i == 0) {
					t.Fatalf("request %d: got %+v, want only Peek to have room", i+1, d)
				}
			}
			at = at.Add(100 * time.Millisecond)
			synctest.Wait() // lets the group end
		}
		if d := takeAt(t, l, at, charge(5)); d.Allowed || !d.FromCache || len(store.costs) != 6 {
			t.Errorf("got %+v after calls of %v, want a back-off after six calls", d, store.costs)
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
