package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// takePlain decides a request with one charge on a Local store, if the store holds a plain state for
// that charge. Most requests on a Local store are of this kind, and the phases of decide would take most
// of their time. takePlain fills d and returns true, or changes nothing and returns false.
func (l *Limiter) takePlain(d *Decision, at time.Time, c *Charge) bool {
	limit := c.Limit
	if limit == nil || limit.plain == nil || c.Force || c.Subject == (Subject{}) || !decidable(at) {
		return false
	}
	now := algo.InstantOf(at)
	state, allowed, known := l.local.TakePlain(now, c.Subject, limit, c.Cost)
	if !known {
		return false
	}
	a := limit.plain.Answer(state, now, c.Cost, allowed)
	d.Allowed, d.At = allowed, at
	switch {
	case !allowed:
		d.RetryAfter = a.Wait
	case limit.Rate.Algorithm == algo.LeakyBucket:
		d.Delay = a.Wait
	}
	if allowed && limit.Global {
		return true
	}
	d.Limit, d.Cost = limit, c.Cost
	d.Capacity, d.Remaining, d.ResetAfter = a.Capacity, a.Remaining, a.ResetAfter
	return true
}
