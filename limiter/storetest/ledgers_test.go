package storetest

import (
	"math"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// ledgers are models that know the real costs of all requests of a world.
type ledgers struct {
	all  Model // what all environments admitted
	most Model // the most that a correct environment may count

	orphans []orphan // slots in the store that no request holds, until an environment sees them

	split     bool // an environment decided alone, so only each environment by itself keeps the limit
	mixed     bool // two versions of the rules were in force at a time
	skewed    bool // the clocks differ
	refunded  bool // a settlement lowered a cost
	resets    int64
	unknown   int64 // costs of settlements that the models cannot refund
	resetAt   time.Time
	cutAt     map[limitOf]time.Time         // last conversion after which the store counts less
	refusedAt map[limiter.Subject]time.Time // last refusal
}

// orphan is a slot that stays in the store until its window ends, because a release or the answer to a charge was lost.
type orphan struct {
	limiter.Charge
	at algo.Instant
}

// executed records that the store executed a call. Without an answer, nobody releases the slots of the call. With an
// answer, the environment counts all slots of the store.
func (w *world) executed(now algo.Instant, charges []limiter.Charge, taken, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range charges {
		if _, slots := c.Limit.Machine().(*algo.Slots); slots && taken && !answered && c.Cost > 0 {
			w.orphans = append(w.orphans, orphan{c, now})
		}
	}
	if !answered {
		return
	}
	for _, o := range w.orphans {
		held, _ := w.most.current(o.Subject, o.Limit, now)
		held.State = held.Machine.Force(held.State, o.at, o.Cost)
		w.most.keep(o.Subject, o.Limit.ID, held)
	}
	w.orphans = nil
}

// own are models of the admissions of one environment. The first is converted when the store converts its state, and
// counts in the window in which the store counts. The environment may not know that state: another environment or a late
// message can have converted it. The second is converted when the environment admits a request. A correct environment
// keeps the limit by at least one of them.
type own [2]Model

// admit charges the models, and returns by how much the charge exceeds the limit in each of them.
func (o *own) admit(now time.Time, c limiter.Charge) (over int64, results [2]algo.Result) {
	over = math.MaxInt64
	for i := range o {
		var exceeds int64
		exceeds, results[i] = admit(&o[i], now, c)
		over = min(over, exceeds)
	}
	return over, results
}

type limitOf struct {
	subject limiter.Subject
	limit   limiter.ID
}

func keyOf(c limiter.Charge) limitOf { return limitOf{c.Subject, c.Limit.ID} }

// enforced reports whether the limit can refuse.
func enforced(l *limiter.Limit) bool { return !l.Mark && !l.Shadow }

// admit counts a charge of an admitted request. It fails if the charge exceeds the limit.
func (w *world) admit(e *environment, now time.Time, c limiter.Charge, d limiter.Decision, synced bool) (n counted) {
	n.Charge = c
	if !enforced(c.Limit) {
		return n
	}
	degraded := d.Reason != limiter.ReasonNone
	if degraded && c.Limit.OnError == limiter.OnErrorAllow && (c.Limit.Spread.Sync == 0 || !synced) {
		_, _ = admit(&w.most, now, c) // the store may have charged it
		return n
	}
	w.split = w.split || degraded
	var over int64
	over, n.own = e.alone.admit(now, c)
	if over-e.refunds[keyOf(c)] > w.slack(c.Limit) && !w.mixed && !w.divided(c.Limit) {
		w.fail("limit %s: environment %d alone admitted %d more than the limit (slack %d): %+v", c.Limit.Name, w.indexOf(e), over,
			w.slack(c.Limit), d)
	}
	over, n.all = admit(&w.all, now, c)
	if over > w.slack(c.Limit) && !w.split && !w.approximate(c.Limit) {
		w.fail("limit %s: all environments admitted %d more than the limit (slack %d): %+v", c.Limit.Name, over, w.slack(c.Limit), d)
	}
	_, n.most = admit(&w.most, now, c)
	return n
}

// admit charges a model, and returns by how much the charge exceeds the limit.
func admit(m *Model, now time.Time, c limiter.Charge) (over int64, r algo.Result) {
	at := algo.InstantOf(now)
	allowed, results := m.Take(at, c.Subject, []limiter.Charge{c})
	if allowed {
		return 0, results[0]
	}
	c.Force = true
	_, results = m.Take(at, c.Subject, []limiter.Charge{c})
	return max(1, results[0].Machine.Used(results[0].State, at)-results[0].Machine.Capacity()), results[0]
}

// convert converts the models to the rules of charges that the store got. The instant of a conversion matters. taken
// reports whether the store took the charges: then later charges under older rules are decided by these rules.
func (w *world) convert(now algo.Instant, charges []limiter.Charge, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	models := []*Model{&w.all, &w.most}
	for _, e := range w.envs {
		models = append(models, &e.alone[0])
	}
	for _, c := range charges {
		if c.Cost == 0 || !slices.ContainsFunc(w.versions, func(limits []*limiter.Limit) bool { return slices.Contains(limits, c.Limit) }) {
			continue
		}
		for _, m := range models {
			before := m.limits(c.Subject)[c.Limit.ID]
			held, write := m.current(c.Subject, c.Limit, now)
			if write || taken && before.Machine == nil {
				m.keep(c.Subject, c.Limit.ID, held)
			}
			if write && m == &w.all && before.Machine != nil && held.Machine.Used(held.State, now) < before.Machine.Used(before.State, now) {
				w.cutAt[keyOf(c)] = time.Now()
			}
		}
	}
}

// follow updates the models after a charge of l, whose clock can be ahead of the clocks of other environments. In the
// first model of the environment of l, charges count in the windows in which the store counted them. In the first
// models of all environments, slots expire by the clock of l.
func (w *world) follow(l *link, now algo.Instant, charges []limiter.Charge, results []algo.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.envs {
		for i, c := range charges {
			held := e.alone[0].limits(c.Subject)[c.Limit.ID]
			if !algo.Refundable(held.Machine, results[i].Machine) {
				continue
			}
			switch m := held.Machine.(type) {
			case *algo.Window:
				if e.link == l {
					held.State = m.At(held.State, m.Start(results[i].State.Window))
				}
			case *algo.Slots:
				_, expired := m.Live(held.State, now)
				held.State.Entries = held.State.Entries.From(expired)
			}
			e.alone[0].keep(c.Subject, c.Limit.ID, held)
		}
	}
}

// renew converts the models to the present rules. The first request of e under new rules converts its counters too.
func (w *world) renew(e *environment, now time.Time, charges []limiter.Charge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range charges {
		if c.Limit.Spread.Sync == 0 {
			continue
		}
		for _, m := range []*Model{&w.all, &e.alone[0]} {
			if held, write := m.limits(c.Subject)[c.Limit.ID].Current(c.Limit, algo.InstantOf(now)); write {
				m.keep(c.Subject, c.Limit.ID, held)
			}
		}
	}
}

func (w *world) indexOf(e *environment) int {
	for i := range w.envs {
		if w.envs[i] == e {
			return i
		}
	}
	return -1
}

// approximate reports whether several environments may together admit more than the limit.
func (w *world) approximate(l *limiter.Limit) bool {
	return w.Environments > 1 && l.Spread.Sync > 0 || w.divided(l)
}

// divided reports whether a part of the limit may count more than its share, because the rules or the operator changed
// the shares. The other parts do not know.
func (w *world) divided(l *limiter.Limit) bool {
	return l.Spread.Shards > 0 && w.has(changes)
}

// slack returns by how much an environment may exceed the limit, because messages need time, clocks differ, or a
// mechanism is documented as inexact.
func (w *world) slack(l *limiter.Limit) (most int64) {
	least, largest := l.Machine().Capacity(), l.Machine().Capacity()
	for _, version := range w.versions {
		for _, other := range version {
			if other.ID == l.ID {
				most = max(most, w.slackOf(other))
				least, largest = min(least, other.Machine().Capacity()), max(largest, other.Machine().Capacity())
			}
		}
	}
	if w.leases(l) && most < math.MaxInt64 {
		most += largest - least // a lease on the larger limit serves until it ends
	}
	return most
}

func (w *world) slackOf(l *limiter.Limit) (n int64) {
	capacity := float64(l.Machine().Capacity())
	age := 10 * time.Millisecond
	if w.has(pressure) || w.has("stalls") || w.has("messages") || w.has("late") {
		age = 1100 * time.Millisecond
	}
	if w.skewed {
		age += time.Second
	}
	switch m := l.Machine().(type) {
	case *algo.Bucket:
		n = int64(math.Ceil(float64(age) / float64(m.Interval)))
		if w.faults() > 0 {
			n += int64(capacity/50) + 1 // its leases leak after a grace time
		}
	case *algo.Window:
		if l.Rate.Algorithm == algo.SlidingWindow {
			n = int64(math.Ceil(capacity * float64(age) / float64(l.WindowAt(start.Time()))))
		}
	case *algo.Log:
		if w.skewed {
			n = 1
		}
	}
	if l.Spread.Sync > 0 {
		rate := capacity / l.WindowAt(start.Time()).Seconds() // see Spread.Sync
		if b, ok := l.Machine().(*algo.Bucket); ok {
			rate = 1 / b.Interval.Seconds()
		}
		n += int64(capacity/4+2.2*rate+2*math.Sqrt(rate)) + 3
	}
	if w.unknown > 0 {
		return math.MaxInt64
	}
	n += w.resets * l.Spread.Lease * int64(w.Environments)
	if w.resets > 0 && (w.leases(l) || w.has("messages")) { // a late message can refund a charge that the reset has deleted
		n += int64(capacity)
	}
	return n
}

// lower changes a charge to a lower real cost, at the beginning of its settlement.
func (w *world) lower(a *admitted, c *counted, now time.Time, actual int64) {
	if actual >= c.Cost {
		return
	}
	unknown := a.correct(&w.all, c, c.all, now, actual)
	_, slots := c.Limit.Machine().(*algo.Slots)
	for _, e := range w.envs {
		if of := keyOf(c.Charge); e != a.env && !slots && (e.link.faults > 0 || !a.began.After(w.cutAt[of])) {
			e.refunds[of] += c.Cost - actual
		}
	}
	for i := range a.env.alone {
		unknown = max(unknown, w.lowerOwn(a, c, i, now, actual))
	}
	w.unknown += unknown
}

// lowerOwn lowers a charge in the model i of each environment. A refund of a charge before a reset can refund charges after
// it, also of another environment. A later refund of such a charge then refunds yet others.
func (w *world) lowerOwn(a *admitted, c *counted, i int, now time.Time, actual int64) (unknown int64) {
	used := func() int64 { return usedAt(look(&a.env.alone[i], now, c.Charge), now) }
	before := used()
	unknown = a.correct(&a.env.alone[i], c, c.own[i], now, actual)
	left := c.Cost - actual - (before - used())
	if a.began.After(w.resetAt) && (w.resets == 0 || left <= 0) {
		return unknown
	}
	for _, e := range w.envs {
		most := c.Cost - actual
		if e == a.env {
			most = left
		}
		for range most { // one by one, because a window refunds no part of a cost
			unknown = max(unknown, a.correct(&e.alone[i], c, c.own[i], now, c.Cost-1))
		}
	}
	return unknown
}

// raise changes a charge to a higher real cost, at the end of its settlement. made reports whether the store must have
// made the correction.
func (w *world) raise(a *admitted, c *counted, now time.Time, actual, excess int64, made bool) {
	if actual > c.Cost {
		a.correct(&w.most, c, c.most, now, actual)
		if !made { // the environment may count it by itself, and reach the max debt before the models
			a.env.refunds[keyOf(c.Charge)] += actual - c.Cost
		}
		if made {
			a.correct(&w.all, c, c.all, now, actual)
		}
		if made && a.began.After(w.resetAt) {
			for i := range a.env.alone {
				a.correct(&a.env.alone[i], c, c.own[i], now, actual-excess) // charges of all environments reach the max debt
			}
		}
		return
	}
	_, slots := c.Limit.Machine().(*algo.Slots)
	_, bucket := c.Limit.Machine().(*algo.Bucket)
	w.refunded = true
	if !made && slots {
		made = true // the environment released it, but not the store
		w.orphans = append(w.orphans, orphan{c.Charge, algo.InstantOf(a.at)})
	}
	if !made || !a.plain && !slots || bucket {
		return // the store, or the count of an outage, may still have the charge
	}
	_ = a.correct(&w.most, c, c.most, now, actual)
	switch { // the other environment can have a cached denial
	case w.Environments > 1 && !slots:
		w.refusedAt[c.Subject] = time.Now()
	case slots:
		for _, e := range w.envs {
			if e != a.env {
				e.behind[c.Subject] = time.Now()
			}
		}
	}
}

// correct corrects a charge in a model. It returns the cost that the model cannot refund.
func (a *admitted) correct(m *Model, c *counted, charged algo.Result, now time.Time, actual int64) (unknown int64) {
	if charged.Machine == nil || actual == c.Cost {
		return 0
	}
	charge := c.Charge
	charge.Cost, charge.Force = actual-c.Cost, true
	if actual < c.Cost {
		charge.Cost, charge.Force = c.Cost-actual, false
	}
	if held := m.limits(c.Subject)[charge.Limit.ID]; !charge.Force && held.Machine != nil && !algo.Refundable(held.Machine, charged.Machine) {
		return charge.Cost // the rules changed meanwhile
	}
	m.Settle(algo.InstantOf(now), c.Subject, []limiter.Charge{charge}, []algo.Result{charged}, 0)
	return 0
}
