package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// admitted is a request that was admitted and is not settled.
type admitted struct {
	env     *environment
	receipt *limiter.Receipt
	at      time.Time
	began   time.Time
	charges []counted
	plain   bool // the store answered all calls of the request
}

// counted is a charge of a request, and what the models returned for it.
type counted struct {
	limiter.Charge
	own       [2]algo.Result // what the models of the environment returned
	all, most algo.Result    // without a Machine: not counted there
}

// watch is the state of the world at the beginning of a request or a settlement.
type watch struct {
	now     time.Time
	began   time.Time
	alone   bool
	touched int
	faults  int
	before  []algo.Result
}

// watch begins a request or a settlement.
func (w *world) watch(now time.Time, charges []limiter.Charge) *watch {
	w.mu.Lock()
	w.busy++
	w.touched++
	x := &watch{now: now, began: time.Now(), alone: w.busy == 1, touched: w.touched, faults: w.faults()}
	w.mu.Unlock()
	x.before = w.states(now, charges)
	return x
}

// end ends a request or a settlement. quiet reports whether nothing else happened at the same time, and faultless
// whether no call was disturbed. The caller holds w.mu.
func (w *world) end(x *watch) (quiet, faultless bool) {
	quiet = x.alone && w.busy == 1 && w.touched == x.touched
	faultless = w.faults() == x.faults
	w.busy--
	w.touched++
	return quiet, faultless
}

func (w *world) faults() (n int) {
	for _, e := range w.envs {
		n += e.link.faults
	}
	return n
}

func (w *world) states(now time.Time, charges []limiter.Charge) []algo.Result {
	results := make([]algo.Result, len(charges))
	for i, c := range charges {
		var held limiter.Held
		w.execute(func() {
			entries, err := w.store.Inspect(ctx, c.Limit.Subjects(c.Subject)[0])
			if err != nil {
				panic(err) // no test disturbs this call
			}
			for _, e := range entries {
				if e.ID == c.Limit.ID {
					held = e.Held
				}
			}
		})
		held, _ = held.Current(c.Limit, algo.InstantOf(now))
		results[i] = held.Result
	}
	return results
}

func (w *world) charges(e *environment, cost int64, several, alike bool) (charges []limiter.Charge) {
	limits := e.limits(w)
	add := func(s limiter.Subject, l *limiter.Limit) {
		c := limiter.Charge{Subject: s, Limit: l, Cost: min(cost, l.MaxLocalCost())}
		if l.Count.Of == limiter.CountConcurrent {
			c.Cost = 1
		}
		charges = append(charges, c)
	}
	for _, l := range limits[:len(limits)-1] {
		add(w.caller, l)
	}
	switch {
	case several && alike:
		add(w.caller.And(limiter.Method("GET")), limits[0])
	case several:
		add(w.caller.And(limiter.Global()), limits[len(limits)-1])
	}
	return charges
}

// take sends a request, and reports whether it was admitted.
func (w *world) take(e *environment, cost int64, several, alike bool) bool {
	w.mu.Lock()
	ended := w.problem != (problem{})
	w.mu.Unlock()
	if ended {
		return false
	}
	now, began, charges := w.now(e), time.Now(), w.charges(e, cost, several, alike)
	w.renew(e, now, charges)
	x := w.watch(now, charges)
	d, receipt, err := w.decide(e, now, charges)
	after := w.states(now, charges)
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet, faultless := w.end(x)
	if err != nil {
		w.fail("request: got error %v, want none", err)
		return false
	}
	w.checkCounts(d, charges, x, after, quiet && faultless)
	if !d.Allowed {
		w.checkRefusal(e, now, d, charges, quiet, faultless)
		return false
	}
	for _, c := range charges {
		if d.Over != nil && d.StoreCalls > 0 && c.Limit.Mark { // the cache may mark the next requests too, also after a refund
			w.refusedAt[c.Subject] = time.Now()
		}
	}
	synced := !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return !e.synced[c.Subject] })
	a := &admitted{env: e, receipt: receipt, at: now, began: began, plain: d.Reason == limiter.ReasonNone && faultless}
	for _, c := range charges {
		a.charges = append(a.charges, w.admit(e, now, c, d, synced))
	}
	if d.Reason == limiter.ReasonNone && faultless {
		for _, c := range charges {
			e.synced[c.Subject] = true
		}
	}
	w.pending = append(w.pending, a)
	w.checkNotices(e, now, d, charges, x.before, after, quiet && faultless)
	return true
}

// decide calls TakeRefundable, and converts a panic to an error.
func (w *world) decide(e *environment, now time.Time, charges []limiter.Charge) (d limiter.Decision, r *limiter.Receipt, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return e.TakeRefundable(ctx, now, charges)
}

// settle settles a request at other costs.
func (w *world) settle(alike bool, delay time.Duration) {
	w.mu.Lock()
	if len(w.pending) == 0 || w.problem != (problem{}) {
		w.mu.Unlock()
		return
	}
	i := w.random.IntN(len(w.pending))
	a := w.pending[i]
	w.pending = append(w.pending[:i], w.pending[i+1:]...)
	actual := make([]int64, len(a.charges))
	charges := make([]limiter.Charge, len(a.charges))
	for i := range actual {
		charges[i] = a.charges[i].Charge
		actual[i] = w.actual(charges[i], alike)
	}
	e := a.env
	w.mu.Unlock()
	if delay > 0 {
		e.link.plan(stalled, 1, delay)
	}

	now := w.now(e)
	w.mu.Lock()
	for i := range a.charges {
		w.lower(a, &a.charges[i], now, actual[i])
	}
	w.mu.Unlock()
	x := w.watch(now, charges)
	done, err := a.settle(now, func(c limiter.Charge) int64 {
		for i := range charges {
			l, s := charges[i].Limit, charges[i].Subject
			if l.ID == c.Limit.ID && (s == c.Subject || l.Shadow && l.Subjects(s)[0] == c.Subject) {
				return actual[i]
			}
		}
		return c.Cost
	})
	after := w.states(now, charges)
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet, faultless := w.end(x)
	if err != nil && faultless {
		w.fail("settlement: got error %v, want none", err)
	}
	for i := range a.charges {
		if !w.resetAt.Before(x.began) {
			w.lower(a, &a.charges[i], now, actual[i])
		}
	}
	w.checkSettlement(a, now, done, actual, x, after, quiet, faultless)
	for i := range a.charges {
		w.raise(a, &a.charges[i], now, actual[i], excess(done, a.charges[i].Charge), faultless)
	}
}

// actual draws the real cost of a charge.
func (w *world) actual(c limiter.Charge, alike bool) int64 {
	switch c.Limit.Count.Of {
	case limiter.CountConcurrent:
		return 0
	case limiter.CountCost, limiter.CountBytes:
		return []int64{0, 1, c.Cost, 2 * c.Cost, 3 + c.Cost, c.Limit.Machine().Capacity() / 4, c.Limit.Machine().Capacity() - 1}[w.random.IntN(7)]
	case limiter.CountRequests, limiter.CountFailures:
	}
	if alike {
		return c.Cost
	}
	return 0
}

// settle settles a request. It returns a panic as an error.
func (a *admitted) settle(now time.Time, actual func(limiter.Charge) int64) (done limiter.Settlement, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return a.receipt.Settle(ctx, now, actual), nil
}

func (w *world) reset(e *environment) {
	charges := w.charges(e, 1, true, true)
	w.touch()
	if err := e.Reset(ctx, charges); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fail("reset: got error %v, want none", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resets, w.resetAt, w.orphans = w.resets+1, time.Now(), nil
	for _, c := range charges {
		w.all.Reset(c.Subject)
		w.most.Reset(c.Subject)
		for _, other := range w.envs {
			for i := range other.alone {
				other.alone[i].Reset(c.Subject)
			}
		}
	}
}
