package quota

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// CounterRules are the parameters of a Counter.
type CounterRules struct {
	Machine  algo.Machine  // machine of the limit
	Horizon  time.Duration // how long a store keeps a charge on the limit
	Interval time.Duration // shortest time between synchronizations
	// Admitted is the machine of the state that Synced receives. It is the machine of the limit. If the
	// window of the limit is too short for a Share, it is the machine of a longer window.
	Admitted algo.Machine
}

// Counter counts one limit of a subject in this process, and synchronizes with the store at intervals.
// It admits at most its Share. Make one with NewCounter.
type Counter struct {
	algo.Result // the last state of the store, with the charges in this process since then
	rules       CounterRules
	share       Share
	pending     int64        // charged in this process and not yet sent to the store
	charged     algo.Instant // instant of the newest pending charge
	epoch       int64        // number of syncs sent so far
	// own counts what this process admitted. The store counts a sync without an answer at most once, because the
	// process does not send it again. With own, the process enforces the limit at least on its own admissions.
	own  algo.Result
	lost bool // the store may lack charges that own has
}

// NewCounter returns a counter that was never synchronized.
func NewCounter(rules CounterRules) Counter {
	return Counter{rules: rules}
}

// Renew returns a counter under changed rules at the instant now. It keeps the charges that the store may lack. It
// also keeps the count, so that it can decide in an outage.
func (c *Counter) Renew(now algo.Instant, rules CounterRules) Counter {
	next := NewCounter(rules)
	next.pending, next.charged, next.epoch, next.own, next.lost = c.pending, c.charged, c.epoch, c.own, c.lost
	if c.Machine == nil {
		return next
	}
	m := rules.Admitted
	next.Result = algo.Result{Machine: m, State: Convert(c.Machine, m, c.State, now)}
	next.convertOwn(m, now)
	next.share = c.share
	next.share.compute(now, next.Result, next.ownCount())
	return next
}

// convertOwn converts the admissions of this process to the machine m.
func (c *Counter) convertOwn(m algo.Machine, now algo.Instant) {
	if c.own.Machine != nil {
		c.own.State = Convert(c.own.Machine, m, c.own.State, now)
	}
	c.own.Machine = m
}

// Counted returns what the counter counts of its limit. The result has no Machine if the counter counts nothing, or if
// it counts a longer window.
func (c *Counter) Counted() algo.Result {
	switch {
	case !c.ownCount():
		return algo.Result{}
	case c.Machine == nil:
		return c.own
	}
	return c.Result
}

// Known reports whether the counter can decide, because it was synchronized.
func (c *Counter) Known() bool { return c.Machine != nil }

// Due reports whether it is time to synchronize.
func (c *Counter) Due(now algo.Instant) bool {
	return c.Machine == nil || now >= c.share.due || c.share.due.Sub(now) > 2*mostInterval
}

// Idle reports whether the counter may be removed at the instant now.
func (c *Counter) Idle(now algo.Instant) bool {
	switch {
	case c.pending > 0 && now < c.charged.Add(c.rules.Horizon), c.lost && now < c.own.Machine.Idle(c.own.State):
		return false // the store may lack charges that still count
	case c.pending > 0 || c.lost:
		return true
	}
	return c.Due(now)
}

// Taken is a charge that Take made, with the data that Undo needs.
type Taken struct {
	epoch         int64
	cost          int64
	before, after states
}

// states are the states of a counter: the total, the admissions of this process, and its share.
type states struct{ total, own, share algo.State }

func (c *Counter) states() states {
	return states{total: c.State, own: c.own.State, share: c.share.State}
}

// Look returns what Take would return: whether the cost is allowed, and the state that decides.
func (c *Counter) Look(now algo.Instant, cost int64, force bool) (allowed bool, decided algo.Result) {
	decided = c.Result
	if !c.share.strict || decided.RetryAfter(now, cost) == 0 {
		decided = c.share.Result
	}
	return force || decided.RetryAfter(now, cost) == 0, decided
}

// Take charges the cost if the limit and the share allow it. It returns the state that decided. The counter
// MUST be Known.
func (c *Counter) Take(now algo.Instant, cost int64, force bool) (allowed bool, decided algo.Result, t Taken) {
	t = Taken{epoch: c.epoch, cost: cost, before: c.states()}
	s := &c.share
	allowed = s.take(now, cost, force)
	if allowed && !c.take(now, cost, force || !s.strict) {
		s.State = t.before.share
		return false, c.Result, t
	}
	t.after = c.states()
	return allowed, s.Result, t
}

func (c *Counter) take(now algo.Instant, cost int64, force bool) bool {
	ok := c.Result.Take(now, cost, force)
	if ok {
		c.own.State = c.Machine.Force(c.own.State, now, cost)
		c.pending += cost
		c.charged = max(c.charged, now)
	}
	return ok
}

// Undo takes back an allowed charge. It returns false if the charge was already sent to the store.
func (c *Counter) Undo(t Taken) bool {
	if c.epoch != t.epoch {
		return false
	}
	c.pending -= t.cost
	c.State = undone(c.Machine, c.State, t.before.total, t.after.total, t.cost)
	c.own.State = undone(c.Machine, c.own.State, t.before.own, t.after.own, t.cost)
	s := &c.share
	s.forget(t.cost)
	s.State = undone(s.Machine, s.State, t.before.share, t.after.share, t.cost)
	return true
}

// Repeat announces that a refused request of this cost will be decided again. Its demand then counts only once.
func (c *Counter) Repeat(cost int64) { c.share.forget(cost) }

// undone removes a charge from the state s and returns the result. before and after are the states around the
// charge.
func undone(m algo.Machine, s, before, after algo.State, cost int64) algo.State {
	switch {
	case !algo.Leaks(m):
		return m.Refund(s, after, cost, 0)
	case s == after: // a state that changed in between keeps the charge until the next synchronization
		return before
	}
	return s
}

// Sync starts a synchronization. The caller MUST then call Synced or Unsynced.
func (c *Counter) Sync(now algo.Instant) (out Sync) {
	s := &c.share
	out.At = now
	if s.stage >= joining {
		out.demand, out.requests = s.demand, s.requests
		out.Count = c.send()
		if c.charged.Add(c.rules.Machine.Horizon()) <= now {
			out.Count = 0 // the limit no longer counts these charges
		}
	}
	out.Demand, out.Interval = s.sync(now, out.demand)
	return out
}

// send empties c.pending and returns the total of its charges, which the next sync contains.
func (c *Counter) send() (sent int64) {
	sent, c.pending = c.pending, 0
	c.epoch++
	return sent
}

// Synced ends a synchronization that succeeded. results are the states of the store: the count, the demand and the
// number of processes. It returns by how many requests the count
// exceeds the limit.
func (c *Counter) Synced(now algo.Instant, out Sync, results []algo.Result, intN func(int) int) (overshoot int64) {
	overshoot = c.sync(now, results[0])
	c.share.update(now, out, results[1], results[2], c.rules.Interval, func() float64 { return fraction(intN) })
	c.share.compute(now, results[0], c.ownCount())
	return overshoot
}

// ownCount reports whether the machine of the limit counts the admissions of all processes. If not, the
// machine of a longer window counts them (CounterRules.Admitted).
func (c *Counter) ownCount() bool { return c.rules.Admitted == c.rules.Machine }

func fraction(intN func(int) int) float64 { return float64(intN(1<<20)) / (1 << 20) }

// sync replaces the count by the state of the store, and adds pending charges. It returns by how many
// requests the state exceeds the limit.
func (c *Counter) sync(now algo.Instant, r algo.Result) (overshoot int64) {
	c.Result = r
	overshoot = max(0, r.Machine.Used(r.State, now)-r.Machine.Capacity())
	c.State = r.Machine.Force(r.State, now, c.pending)
	c.convertOwn(r.Machine, now)
	c.State = atLeast(r.Machine, c.State, c.own.State, now)
	return overshoot
}

// atLeast raises the state s so that it counts at least as much as the state own at the instant now. It returns
// the result.
func atLeast(m algo.Machine, s, own algo.State, now algo.Instant) algo.State {
	if algo.Leaks(m) {
		return algo.Merge(m, s, own)
	}
	return m.Force(s, now, max(0, m.Used(own, now)-m.Used(s, now)))
}

// Unsynced ends a synchronization that failed. charged reports whether the store may have charged the
// sync. busy reports whether the subject is busy.
func (c *Counter) Unsynced(now algo.Instant, out Sync, charged, busy bool, intN func(int) int) {
	if charged {
		c.lost = c.lost || out.Count > 0
	} else {
		c.pending += out.Count
	}
	s := &c.share
	switch spread := fraction(intN); {
	case s.stage == unseen && busy: // the process cannot read yet how many processes there are, and assumes that it is alone
		c.Result = algo.Result{Machine: c.rules.Admitted}
		c.convertOwn(c.rules.Admitted, now)
		s.start(now, spread)
		s.compute(now, c.Result, c.ownCount())
	case busy:
		s.interval = min(2*max(s.interval, leastInterval), mostInterval)
		s.due = now.Add(s.interval/2 + times(s.interval, spread))
	default:
		s.due = now.Add(max(s.interval, leastInterval))
	}
	if charged {
		s.demand, s.requests, s.since = s.demand-out.demand, s.requests-out.requests, now
	}
}

// Convert converts the state s at the instant now. The machine of s is from; the machine of the result is to. Unlike
// algo.Convert, it changes nothing if the machines are equal.
func Convert(from, to algo.Machine, s algo.State, now algo.Instant) algo.State {
	if from == to || from.Fingerprint() == to.Fingerprint() {
		return s
	}
	return algo.Convert(from, to, s, now)
}
