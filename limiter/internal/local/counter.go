package local

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// CounterRules are the parameters of a Counter.
type CounterRules struct {
	Machine  algo.Machine  // of the limit
	Horizon  time.Duration // how long a store keeps a charge of the limit
	Interval time.Duration // between synchronizations; a Counter with a Share plans its own
	// Admitted is the machine of the state that Reported receives: that of the limit, or of a
	// longer window if the limit is too short for a Share. nil: the counter has no Share.
	Admitted algo.Machine
}

// Counter counts one limit of a subject in this process, and synchronizes with the store from time
// to time. With a Share it admits no more than that. The zero value has no rules.
type Counter struct {
	algo.Result // what the store held last, and what was charged here since
	rules       CounterRules
	share       *Share       // nil without CounterRules.Admitted
	pending     int64        // charged here, and not yet sent to the store
	charged     algo.Instant // when the newest of pending was charged
	epoch       int64        // how often pending was sent
	synced      algo.Instant // when the store was called last
	// own is the state of a subject that only this process charges. What was sent without an
	// answer is not sent again, so the store counts it at most once; this process still enforces the
	// limit on all that it admitted.
	own  algo.Result
	lost bool // the store may lack something of own
}

// NewCounter returns a counter that knows nothing yet.
func NewCounter(rules CounterRules) Counter {
	c := Counter{rules: rules}
	if rules.Admitted != nil {
		c.share = &Share{}
	}
	return c
}

// Renew returns a counter under changed rules. It keeps what the store may lack.
func (c *Counter) Renew(rules CounterRules) Counter {
	next := NewCounter(rules)
	next.pending, next.charged, next.epoch, next.own, next.lost = c.pending, c.charged, c.epoch, c.own, c.lost
	return next
}

// Known reports whether the counter was synchronized, so that it can decide.
func (c *Counter) Known() bool { return c.Machine != nil }

// Due reports whether it is time to synchronize.
func (c *Counter) Due(now algo.Instant) bool {
	if s := c.share; s != nil {
		return c.Machine == nil || now >= s.due || s.due.Sub(now) > 2*maxReport
	}
	age := now.Sub(c.synced)
	return c.Machine == nil || age >= c.rules.Interval || -age >= c.rules.Interval
}

// Idle reports whether the counter may be dropped at now.
func (c *Counter) Idle(now algo.Instant) bool {
	switch {
	case c.pending > 0 && now < c.charged.Add(c.rules.Horizon), c.lost && now < c.own.Machine.Idle(c.own.State):
		return false // the store may lack what still counts
	case c.pending > 0 || c.lost:
		return true
	}
	return c.Due(now)
}

// Taken is a charge on a Counter, for Undo.
type Taken struct {
	epoch         int64
	cost          int64
	before, after states
}

// states are the states of a counter: the total, what this process charged, and its share.
type states struct{ total, own, share algo.State }

func (c *Counter) states() states {
	s := states{total: c.State, own: c.own.State}
	if c.share != nil {
		s.share = c.share.State
	}
	return s
}

// Look returns what Take would: whether cost is allowed, and the state that decides.
func (c *Counter) Look(now algo.Instant, cost int64, force bool) (allowed bool, decided algo.Result) {
	decided = c.Result
	if s := c.share; s != nil && (!s.strict || decided.RetryAfter(now, cost) == 0) {
		decided = s.Result
	}
	return force || decided.RetryAfter(now, cost) == 0, decided
}

// Take charges cost if it is allowed, by the share too. It returns the state that decided. The
// counter MUST be Known.
func (c *Counter) Take(now algo.Instant, cost int64, force bool) (allowed bool, decided algo.Result, t Taken) {
	t = Taken{epoch: c.epoch, cost: cost, before: c.states()}
	s := c.share
	if s == nil {
		allowed = c.take(now, cost, force)
		t.after = c.states()
		return allowed, c.Result, t
	}
	allowed = s.take(now, cost, force)
	if allowed && !c.take(now, cost, force || !s.strict) {
		s.State = t.before.share
		return false, c.Result, t
	}
	t.after = c.states()
	return allowed, s.Result, t
}

func (c *Counter) take(now algo.Instant, cost int64, force bool) bool {
	next, ok := take(c.Machine, c.State, now, cost, force)
	if ok {
		c.State = next
		c.own.State = c.Machine.Force(c.own.State, now, cost)
		c.pending += cost
		c.charged = max(c.charged, now)
	}
	return ok
}

// Undo takes back a charge that was allowed, and reports whether it could: a charge that was sent
// stays.
func (c *Counter) Undo(t Taken) bool {
	if c.epoch != t.epoch {
		return false
	}
	c.pending -= t.cost
	c.State = undone(c.Machine, c.State, t.before.total, t.after.total, t.cost)
	c.own.State = undone(c.Machine, c.own.State, t.before.own, t.after.own, t.cost)
	if s := c.share; s != nil {
		s.forget(t.cost)
		s.State = undone(s.Machine, s.State, t.before.share, t.after.share, t.cost)
	}
	return true
}

// Repeat announces that the request of a refused cost will be decided again: its demand counts once.
func (c *Counter) Repeat(cost int64) {
	if c.share != nil {
		c.share.forget(cost)
	}
}

// undone returns s without a charge that changed a state from before to after.
func undone(m algo.Machine, s, before, after algo.State, cost int64) algo.State {
	switch m.(type) {
	case *algo.Window, *algo.Log:
		return m.Refund(s, after, cost, 0)
	case *algo.Bucket:
		if s == after { // otherwise it is corrected by the next synchronization
			return before
		}
	}
	return s
}

// Report starts a synchronization. Reported or Unreported MUST follow. Without a Share, pending
// charges are reported at the instant of the newest one, so that they count in its window.
func (c *Counter) Report(now algo.Instant) (out Report) {
	s := c.share
	out.At = now
	switch {
	case s == nil:
		if out.Count = c.send(); out.Count > 0 {
			out.At = min(now, c.charged)
		}
		return out
	case s.stage >= joining:
		out.demand, out.requests = s.demand, s.requests
		if out.Count = c.send(); c.charged.Add(c.rules.Machine.Horizon()) <= now {
			out.Count = 0 // it no longer counts
		}
	}
	out.Demand, out.Interval = s.report(now, out.demand)
	return out
}

func (c *Counter) send() (sent int64) {
	sent, c.pending = c.pending, 0
	c.epoch++
	return sent
}

// Reported takes in the states of the store after a report: the count and, with a Share, the demand
// and the processes. It returns how far the count is past the limit.
func (c *Counter) Reported(now algo.Instant, out Report, results []algo.Result, intN func(int) int) (overshoot int64) {
	overshoot = c.sync(now, results[0])
	if s := c.share; s != nil {
		s.update(now, out, results[1], results[2], func() float64 { return fraction(intN) })
		s.settle(now, results[0], c.ownCount())
	}
	return overshoot
}

// ownCount reports whether the limit itself counts what all processes admit.
func (c *Counter) ownCount() bool { return c.rules.Admitted == c.rules.Machine }

// fraction returns a random number from 0 to 1.
func fraction(intN func(int) int) float64 { return float64(intN(1<<20)) / (1 << 20) }

// sync takes in the state of the store. It returns how far that is past the limit.
func (c *Counter) sync(now algo.Instant, r algo.Result) (overshoot int64) {
	c.Result, c.synced = r, now
	overshoot = max(0, r.Machine.Used(r.State, now)-r.Machine.Capacity())
	c.State = r.Machine.Force(r.State, now, c.pending)
	if c.own.Machine != nil && c.own.Machine != r.Machine {
		c.own.State = algo.Convert(c.own.Machine, r.Machine, c.own.State, now)
	}
	c.own.Machine = r.Machine
	c.State = atLeast(r.Machine, c.State, c.own.State, now)
	return overshoot
}

// atLeast returns s, raised to what own counts at now.
func atLeast(m algo.Machine, s, own algo.State, now algo.Instant) algo.State {
	if _, ok := m.(*algo.Bucket); ok {
		s.TAT = max(s.TAT, own.TAT)
		return s
	}
	return m.Force(s, now, max(0, m.Used(own, now)-m.Used(s, now)))
}

// Unreported takes back a report without an answer. charged reports whether the store may have
// charged it, busy whether the subject is busy.
func (c *Counter) Unreported(now algo.Instant, out Report, charged, busy bool, intN func(int) int) {
	c.synced = now
	if charged {
		c.lost = c.lost || out.Count > 0
	} else {
		c.pending += out.Count
	}
	s := c.share
	if s == nil {
		return
	}
	switch spread := fraction(intN); {
	case s.stage == unseen && busy: // others report; until it can read how many, it is as if alone
		c.Result = algo.Result{Machine: c.rules.Admitted}
		s.start(now, spread)
		s.settle(now, c.Result, c.ownCount())
	case busy:
		s.interval = min(2*max(s.interval, minReport), maxReport)
		s.due = now.Add(s.interval/2 + times(s.interval, spread))
	default:
		s.due = now.Add(max(s.interval, minReport))
	}
	if charged {
		s.demand, s.requests, s.since = s.demand-out.demand, s.requests-out.requests, now
	}
}
