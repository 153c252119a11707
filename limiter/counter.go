package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// counter is a count that is brought together with the store's from time to time. The
// zero value knows nothing yet.
type counter struct {
	Result               // what the store held last, and what was charged here since
	pending int64        // charged here, and not yet sent to the store
	charged algo.Instant // when the newest of pending was
	epoch   int64        // how often pending was sent
	synced  algo.Instant // when the store was asked last
}

// due reports whether it is time to ask the store.
func (c *counter) due(now algo.Instant, interval time.Duration) bool {
	age := now.Sub(c.synced)
	return c.Machine == nil || age >= interval || -age >= interval
}

// take charges cost, or reports that the limit refuses it.
func (c *counter) take(now algo.Instant, cost int64, spend bool) bool {
	next, ok := Charge{Cost: cost, Spend: spend}.Apply(c.Machine, c.State, now)
	if ok {
		c.State = next
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
func (c *counter) sync(now algo.Instant, r Result) (overshoot int64) {
	c.Result, c.synced = r, now
	overshoot = max(0, r.Machine.Used(r.State, now)-r.Machine.Capacity())
	c.State = r.Machine.Spend(r.State, now, c.pending)
	return overshoot
}

// unsent takes back what the store did not get.
func (c *counter) unsent(now algo.Instant, sent int64) {
	c.pending += sent
	c.synced = now
}

// undo takes back a charge of an epoch that left the state after. It was never sent if the
// epoch is still the same, and is then as if it had not been; otherwise it stays, and undo
// reports false.
func (c *counter) undo(epoch int64, before, after algo.State, cost int64) bool {
	if c.epoch != epoch {
		return false
	}
	c.pending -= cost
	switch c.Machine.(type) {
	case *algo.Window, *algo.Log:
		c.State = c.Machine.Refund(c.State, after, cost, 0)
	case *algo.Bucket:
		if c.State == after { // otherwise it waits for the next sync
			c.State = before
		}
	}
	return true
}
