package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// counter is a count that is brought together with the store's from time to time. The
// zero value knows nothing yet.
type counter struct {
	Result               // what the store held last, and what was charged here since
	pending int64        // charged here, and not yet in the store
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
	}
	return ok
}

// sync takes in what the store holds after sent of pending were charged. It returns
// how far that is past the limit.
func (c *counter) sync(now algo.Instant, r Result, sent int64) (overshoot int64) {
	c.pending -= sent
	c.Result, c.synced = r, now
	overshoot = max(0, r.Machine.Used(r.State, now)-r.Machine.Capacity())
	c.State = r.Machine.Spend(r.State, now, c.pending)
	return overshoot
}

// undo takes back a charge that left the state after, unless the store has it already.
func (c *counter) undo(before, after algo.State, cost int64) {
	if c.pending < cost {
		return
	}
	c.pending -= cost
	if c.State == after {
		c.State = before
	} else if c.Machine != nil {
		c.State = c.Machine.Refund(c.State, after, cost, localMargin)
	}
}
