package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// decideCompact decides a request with one charge on a Local store, if the store holds a compact state for
// that charge. Most requests on a Local store are of this kind, and the phases of decide would take most
// of their time. decideCompact fills d and returns true, or changes nothing and returns false.
func (l *Limiter) decideCompact(d *Decision, at time.Time, c *Charge) bool {
	limit := c.Limit
	if limit == nil || limit.compacter == nil || c.Force || c.Subject == (Subject{}) || !decidable(at) {
		return false
	}
	now := algo.InstantOf(at)
	state, allowed, known := l.local.TakeCompact(now, c.Subject, limit, c.Cost)
	if !known {
		return false
	}
	a := limit.compacter.Answer(state, now, c.Cost, allowed)
	d.Allowed, d.At = allowed, at
	switch {
	case !allowed:
		d.RetryAfter = a.Wait
	case limit.Rate.Algorithm.Queues():
		d.Delay = a.Wait
	}
	if allowed && limit.Global {
		return true
	}
	d.Limit, d.Cost = limit, c.Cost
	d.Capacity, d.Remaining, d.ResetAfter = a.Capacity, a.Remaining, a.ResetAfter
	return true
}

// isSingle reports whether decideSingle decides a request.
func (l *Limiter) isSingle(r *request, charges []Charge) bool {
	return !l.sharesStore() && len(charges) == 1 && charges[0].Limit.Spread == Spread{} && !charges[0].Limit.Shadow && !charges[0].Limit.Mark && !charges[0].Limit.notifies() && charges[0].Limit.regions == nil && !r.look && !r.receipt
}

// decideSingle decides a request with one charge on a Local store. For such a request the phases
// of decide would take most of the time.
func (l *Limiter) decideSingle(ctx context.Context, r *request, at time.Time, charges []Charge) Decision {
	now, it := algo.InstantOf(at), task{Charge: charges[0], original: charges[0].Limit, want: charges[0].Cost}
	// The slices belong to the pooled request. New slices would be allocated for each request, because they are
	// arguments of an interface method.
	r.charges, r.results = append(r.charges[:0], charges[0]), append(r.results[:0], algo.Result{})
	allowed, err := l.store.Take(ctx, now, it.Subject, r.charges, r.results)
	d := Decision{Allowed: allowed, At: at}
	if err != nil {
		switch d.Reason = reasonOf(err); {
		case d.Reason == ReasonBusy:
			d.RetryAfter = l.busyWait()
		case it.original.OnError == OnErrorAllow:
			d.Allowed = true
		default: // a Local store has no fallback
			d.Failed, d.LocalFull = true, it.original.OnError == OnErrorLocal
		}
		l.log.failure(ctx, now, err)
		return d
	}
	d.Clamped = clamped(r.charges, r.results)
	if d.report(&it, r.results[0], now); d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Superseded {
		l.log.supersededBy(ctx, now, it.original, r.results[0].Machine)
	}
	return d
}
