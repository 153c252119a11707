package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// counter is a count that is brought together with the store's from time to time. The
// zero value knows nothing yet.
type counter struct {
	algo.Result              // what the store held last, and what was charged here since
	pending     int64        // charged here, and not yet sent to the store
	charged     algo.Instant // when the newest of pending was
	epoch       int64        // how often pending was sent
	synced      algo.Instant // when the store was asked last
	// own is the state of a subject that nobody but this environment charges. What is sent and not
	// answered is not sent again, so that the store counts it at most once; this environment
	// still enforces the limit on all that it admitted.
	own  algo.Result
	lost bool // something in own may be missing in the store
}

// states are those of an account: the total, what is of this environment, and of its share.
type states struct{ total, own, share algo.State }

// due reports whether it is time to ask the store.
func (c *counter) due(now algo.Instant, interval time.Duration) bool {
	age := now.Sub(c.synced)
	return c.Machine == nil || age >= interval || -age >= interval
}

// take charges cost, or reports that the limit refuses it.
func (c *counter) take(now algo.Instant, cost int64, spend bool) bool {
	next, ok := Charge{Cost: cost, Force: spend}.Apply(c.Machine, c.State, now)
	if ok {
		c.State = next
		c.own.State = c.Machine.Force(c.own.State, now, cost)
		c.pending += cost
		c.charged = max(c.charged, now)
	}
	return ok
}

// send takes what is pending on its way to the store, and returns as of when it is to be
// charged: as of when it was, and not of now, or it would count in a window in which nobody
// asked for it.
func (c *counter) send(now algo.Instant) (sent int64, at algo.Instant) {
	sent, at = c.pending, now
	if sent > 0 {
		at = min(now, c.charged)
	}
	c.pending = 0
	c.epoch++
	return sent, at
}

// sync takes in what the store holds now that it was sent what was pending. It returns how
// far that is past the limit.
func (c *counter) sync(now algo.Instant, r algo.Result) (overshoot int64) {
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

// unsent takes back what was sent and not answered, unless the store may have charged it.
func (c *counter) unsent(now algo.Instant, sent int64, charged bool) {
	c.synced = now
	if charged {
		c.lost = c.lost || sent > 0
	} else {
		c.pending += sent
	}
}

// counts reports whether what this environment knows and the store may not know still counts.
func (c *counter) counts(now algo.Instant, horizon time.Duration) bool {
	return c.pending > 0 && now < c.charged.Add(horizon) || c.lost && now < c.own.Machine.Idle(c.own.State)
}

// mayHaveCharged reports whether a store that was called, and failed with err, may have made the
// charge: there was no answer to the call, or to the last of its attempts.
func mayHaveCharged(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	return !Answered(err) && !errors.Is(err, ErrBreakerOpen) && !errors.Is(err, ErrThrottled)
}

// undo takes back a charge of an epoch that left the states after. It was never sent if the
// epoch is still the same, and is then as if it had not been; otherwise it stays, and undo
// reports false.
func (c *counter) undo(epoch int64, before, after states, cost int64) bool {
	if c.epoch != epoch {
		return false
	}
	c.pending -= cost
	c.State = undone(c.Machine, c.State, before.total, after.total, cost)
	c.own.State = undone(c.Machine, c.own.State, before.own, after.own, cost)
	return true
}

// undone returns s without a charge that changed a state from before to after.
func undone(m algo.Machine, s, before, after algo.State, cost int64) algo.State {
	switch m.(type) {
	case *algo.Window, *algo.Log:
		return m.Refund(s, after, cost, 0)
	case *algo.Bucket:
		if s == after { // otherwise it waits for the next sync
			return before
		}
	}
	return s
}
