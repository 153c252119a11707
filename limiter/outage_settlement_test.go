package limiter_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

func takeRefundable(t *testing.T, l *limiter.Limiter, now time.Time, charges ...limiter.Charge) *limiter.Receipt {
	t.Helper()
	d, receipt, err := l.TakeRefundable(ctx, now, charges)
	if err != nil || !d.Allowed {
		t.Fatalf("got %+v, error %v, want an admission", d, err)
	}
	return receipt
}

func actually(cost int64) func(limiter.Charge) int64 {
	return func(limiter.Charge) int64 { return cost }
}

func counted(t *testing.T, n int64, rate algo.Rate) *limiter.Limit {
	t.Helper()
	rate.Requests, rate.Window = n, time.Hour
	return limit(t, limiter.Limit{Name: "cost", Rate: rate, Count: limiter.Count{Of: limiter.CountCost}})
}

// An outage begins after a settlement that used up the limit. Whether the store made the settlement, rejected it or
// lost its answer, the process admits nothing more, neither in the outage nor after it.
func TestOutage_settled(t *testing.T) {
	for _, rate := range []algo.Rate{{}, {Algorithm: algo.FixedWindow}, {Algorithm: algo.SlidingLog}, {Algorithm: algo.TokenBucket}} {
		for name, settles := range map[string]struct {
			fails error
			lost  bool
		}{"settled": {}, "rejected": {errRefused, false}, "answer lost": {errHangs, true}} {
			store := newOutage()
			l, c := quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, rate)}
			receipt := takeRefundable(t, l, noon, c)
			store.settles, store.lost = settles.fails, settles.lost
			receipt.Settle(ctx, noon, actually(100))
			store.fails(true)
			if n := admissions(t, l, 100, noon, c); n != 0 {
				t.Errorf("%s, %s: got %d admitted in the outage, want 0", rate.Algorithm, name, n)
			}
			store.fails(false)
			if n := admissions(t, l, 100, noon, c); n != 0 {
				t.Errorf("%s, %s: got %d admitted after the outage, want 0", rate.Algorithm, name, n)
			}
		}
	}
}

// The store works, but one settlement fails. The process counts the correction by itself.
func TestOutage_settlementLost(t *testing.T) {
	store := newOutage()
	l, c := quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, algo.Rate{})}
	receipt := takeRefundable(t, l, noon, c)
	store.settles = errRefused
	if got, want := receipt.Settle(ctx, noon, actually(90)), (limiter.Settlement{Lost: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := admissions(t, l, 100, noon, c); n != 10 {
		t.Errorf("got %d admitted, want 10", n)
	}
}

// A request is admitted in an outage. When it settles, the store counts as much as the process did, so the process
// counts nothing any more. The correction still counts.
func TestOutage_settledLate(t *testing.T) {
	store := newOutage()
	l, c := quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, algo.Rate{})}
	store.fails(true)
	receipt := takeRefundable(t, l, noon, c)
	store.fails(false)
	others := quiet(store)
	takeAt(t, others, noon, c)
	takeAt(t, l, noon, c)
	if l.FallbackHolds(noon) {
		t.Fatal("the store counts as much: got counts of the outage, want none")
	}
	receipt.Settle(ctx, noon, actually(98))
	if n := admissions(t, l, 100, noon, c); n != 1 {
		t.Errorf("got %d admitted, want 1: the limit of 100 less 98 and 1", n)
	}
}

// After an outage, the store and this process both count a request. A settlement reports one charge, one excess and
// one refund.
func TestOutage_settledOnce(t *testing.T) {
	for _, c := range []struct {
		processes int
		actual    int64
		want      func(l *limiter.Limit) limiter.Settlement
	}{
		{1, 300, func(l *limiter.Limit) limiter.Settlement {
			return limiter.Settlement{Charged: 1, Excess: []limiter.Excess{{Subject: user, Limit: l, Cost: 300 - 2*100}}}
		}},
		{1, 0, func(*limiter.Limit) limiter.Settlement { return limiter.Settlement{Refunds: limiter.Refunds{Given: 1}} }},
		{4, 0, func(*limiter.Limit) limiter.Settlement { return limiter.Settlement{Refunds: limiter.Refunds{Given: 1}} }},
	} {
		store := newOutage()
		l, limited := quiet(store), onError(t, "a", 100, limiter.OnErrorLocal, c.processes)
		charge := limiter.Charge{Subject: user, Cost: 10, Limit: limited}
		store.fails(true)
		during := takeRefundable(t, l, noon, charge)
		if got, want := during.Settle(ctx, noon, actually(0)), (limiter.Settlement{Refunds: limiter.Refunds{Given: 1}}); !reflect.DeepEqual(got,
			want) {
			t.Errorf("%d processes, in the outage: got %+v, want %+v", c.processes, got, want)
		}
		takeAt(t, l, noon, limiter.Charge{Subject: user, Cost: 1, Limit: limited})
		store.fails(false)
		after := takeRefundable(t, l, noon, charge)
		if got, want := after.Settle(ctx, noon, actually(c.actual)), c.want(limited); !reflect.DeepEqual(got, want) {
			t.Errorf("%d processes, after the outage: got %+v, want %+v", c.processes, got, want)
		}
	}
}

// A process divides a concurrent limit with another one. When the requests that were in flight at the start of an
// outage have ended, all slots of its share are free.
func TestOutage_slotsOfShare(t *testing.T) {
	store := newOutage()
	l := quiet(store)
	c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{
		Name: "a", Rate: algo.Rate{Requests: 10, Window: time.Minute}, Count: limiter.Count{Of: limiter.CountConcurrent}, LocalProcesses: 2,
	})}
	var inFlight []*limiter.Receipt
	now := noon
	for range 8 {
		now = now.Add(time.Millisecond)
		inFlight = append(inFlight, takeRefundable(t, l, now, c))
	}
	store.fails(true)
	now = now.Add(time.Millisecond)
	if n := admissions(t, l, 2, now, c); n != 1 {
		t.Fatalf("got %d admitted at the start of the outage, want 1: the share of 5 less half of 8", n)
	}
	for _, receipt := range inFlight {
		receipt.Refund(ctx, now)
	}
	if n := admissions(t, l, 10, now.Add(time.Millisecond), c); n != 4 {
		t.Errorf("got %d admitted, want 4: the share of 5 less 1", n)
	}
}

// New rules replace the limit while its requests are in flight. Their settlements count under the new rules.
func TestOutage_settledAfterReload(t *testing.T) {
	store := newOutage()
	l := quiet(store)
	under := func(version, requests int64) limiter.Charge {
		return limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Version: version,
			Rate: algo.Rate{Requests: requests, Window: time.Hour}})}
	}
	store.fails(true)
	receipt := takeRefundable(t, l, noon, under(1, 100))
	takeAt(t, l, noon, under(2, 50)) // the fallback now counts under the new rules
	receipt.Settle(ctx, noon, actually(40))
	if n := admissions(t, l, 50, noon, under(2, 50)); n != 9 {
		t.Errorf("got %d admitted, want 9: the limit of 50 less 40 and 1", n)
	}
}

// settledDuring returns how many requests of a limit of 10 an environment admits and does not refund. It admits five in
// an outage, which the store never counts. After the outage, a request of cost 4, or of the reserve 1, settles at the
// actual cost, and another environment makes two requests. A further request is made when the settlement begins.
func settledDuring(t *testing.T, reserve, actual int64, change func(*outage)) (kept int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newOutage()
		l := quiet(store)
		c := limiter.Charge{Subject: user, Cost: 1, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algo.FixedWindow,
			Requests: 10, Window: time.Hour}})}
		store.fails(true)
		kept = int64(admissions(t, l, 5, noon, c)) + actual
		store.fails(false)
		settles := c
		settles.Cost = reserve
		receipt := takeRefundable(t, l, noon, settles)
		admissions(t, quiet(store), 2, noon, c)
		change(store)
		var together sync.WaitGroup
		taken := 0
		if store.taking > 0 {
			together.Go(func() { taken = admissions(t, l, 1, noon, c) })
			synctest.Wait()
			receipt.Settle(ctx, noon, actually(actual))
		} else {
			together.Go(func() { receipt.Settle(ctx, noon, actually(actual)) })
			synctest.Wait()
			taken = admissions(t, l, 1, noon, c)
		}
		together.Wait()
		store.fails(false)
		store.taking = 0
		if store.late != nil {
			store.late()
		}
		kept += int64(taken + admissions(t, l, 20, noon, c))
	})
	return kept
}

// A settlement is in flight while a request is decided. The fallback keeps its counts: the state of the store can be
// older than a refund, or it can lack only a charge that the fallback lacks too.
func TestOutage_settlementInFlight(t *testing.T) {
	for name, c := range map[string]struct {
		reserve, actual int64
		change          func(*outage)
	}{
		"refund":                            {4, 0, func(o *outage) { o.settling = time.Second }},
		"refund during a call":              {4, 0, func(o *outage) { o.taking = time.Second }},
		"refund that the store makes later": {4, 0, func(o *outage) { o.settles, o.delays = errHangs, true }},
		"higher cost, answered later":       {1, 4, func(o *outage) { o.answering = time.Second }},
	} {
		if kept := settledDuring(t, c.reserve, c.actual, c.change); kept < 6 || kept > 10 {
			t.Errorf("%s: got %d admitted and not refunded, want 6 to 10", name, kept)
		}
	}
}

// A request is admitted in an outage. It is settled under the rules of its admission after newer rules made the
// bucket deeper and the store counts the rest of the bucket. No usage is lost.
func TestOutage_settledLateAfterReload(t *testing.T) {
	store := newOutage()
	l := quiet(store)
	under := func(version, burst, cost int64) limiter.Charge {
		return limiter.Charge{Subject: user, Cost: cost, Limit: limit(t, limiter.Limit{Name: "a", Version: version,
			Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Hour, Burst: burst}})}
	}
	store.fails(true)
	receipt := takeRefundable(t, l, noon, under(1, 10, 1))
	store.fails(false)
	takeAt(t, quiet(store), noon, under(1, 10, 1))
	takeAt(t, l, noon, under(2, 40, 29))
	if l.FallbackHolds(noon) {
		t.Fatal("the store counts as much: got counts of the outage, want none")
	}
	receipt.Settle(ctx, noon, actually(6))
	if n := admissions(t, l, 40, noon, under(2, 40, 1)); n != 5 {
		t.Errorf("got %d admitted, want 5: the burst of 40 less 29 and 6", n)
	}
}

// After an outage, the store counts as much as this process, because it counts a charge of another process. A refund of
// that charge lets this process exceed the limit by at most its cost.
func TestOutage_refundElsewhere(t *testing.T) {
	for _, rate := range []algo.Rate{{Algorithm: algo.FixedWindow}, {Algorithm: algo.SlidingWindow}} {
		store := newOutage()
		l, other := quiet(store), quiet(store)
		charge := func(cost int64) limiter.Charge {
			return limiter.Charge{Subject: user, Cost: cost, Limit: counted(t, 20, rate)}
		}
		store.fails(true)
		before := admissions(t, l, 8, noon, charge(1))
		store.fails(false)
		receipt := takeRefundable(t, other, noon, charge(10))
		before += admissions(t, l, 1, noon, charge(1))
		if l.FallbackHolds(noon) {
			t.Fatalf("%s: the store counts as much: got counts of the outage, want none", rate.Algorithm)
		}
		receipt.Settle(ctx, noon, actually(0))
		if n := before + admissions(t, l, 30, noon, charge(1)); n != 28 {
			t.Errorf("%s: got %d admitted, want 28: the 8 of the outage and the 20 of the store", rate.Algorithm, n)
		}
	}
}

// A request is decided while a settlement charges a higher cost. Whether the store answers the request before or after it
// makes the settlement, an outage then admits exactly what the store has left.
func TestOutage_settledAround(t *testing.T) {
	for _, rate := range []algo.Rate{{}, {Algorithm: algo.FixedWindow}, {Algorithm: algo.SlidingLog}, {Algorithm: algo.TokenBucket}} {
		for name, around := range map[string]func(h *hooked, take func()){
			"answered before": func(h *hooked, take func()) { h.before = take },
			"answered after":  func(h *hooked, take func()) { h.after = take },
			"answered before and after": func(h *hooked, take func()) {
				h.before, h.after = take, take
			},
		} {
			store := &hooked{outage: newOutage()}
			l, c := quiet(store), limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, rate)}
			receipt, taken := takeRefundable(t, l, noon, c), 1
			around(store, func() {
				takeAt(t, l, noon, c)
				taken++
			})
			receipt.Settle(ctx, noon, actually(60))
			store.fails(true)
			if n, want := admissions(t, l, 100, noon, c), 100-60-taken+1; n != want {
				t.Errorf("%s, %s: got %d admitted in the outage, want %d", rate.Algorithm, name, n, want)
			}
		}
	}
}

// hooked is a store that calls functions directly before and after it makes a settlement.
type hooked struct {
	*outage
	before, after func()
}

func (h *hooked) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if h.before != nil {
		h.before()
	}
	settled, err := h.outage.Settle(ctx, now, s, charges, results, elapsed)
	if h.after != nil {
		h.after()
	}
	return settled, err
}

// The counts of one subject do not make the requests of other subjects more expensive.
func TestOutage_otherSubject(t *testing.T) {
	store := newOutage()
	l := quiet(store)
	other := []limiter.Charge{{Subject: limiter.User("another-user-with-a-long-name-of-50-characters"), Cost: 1,
		Limit: onError(t, "a", 1_000_000, limiter.OnErrorLocal, 1)}}
	allocs := func() float64 {
		return leastAllocations(func() {
			if d, err := l.Take(ctx, noon, other); err != nil || !d.Allowed {
				t.Fatalf("got %+v, error %v, want an admission", d, err)
			}
		})
	}
	before := allocs()
	receipt := takeRefundable(t, l, noon, limiter.Charge{Subject: user, Cost: 1, Limit: counted(t, 100, algo.Rate{})})
	store.settles = errRefused
	receipt.Settle(ctx, noon, actually(90))
	if !l.FallbackHolds(noon) {
		t.Fatal("after a lost settlement: got no counts, want counts")
	}
	if after := allocs(); after > before {
		t.Errorf("got %v allocations per request while another subject has counts, want %v", after, before)
	}
}
