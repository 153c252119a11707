package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// simple reports whether decideSimple decides a request.
func (l *Limiter) simple(r *request, charges []Charge) bool {
	return !l.shares() && len(charges) == 1 && charges[0].Limit.Spread == Spread{} && !charges[0].Limit.Shadow && !charges[0].Limit.notifies() && !r.look && !r.receipt
}

// decideSimple decides a request with one charge on a Local store. For such a request the phases
// of decide would take most of the time.
func (l *Limiter) decideSimple(ctx context.Context, r *request, at time.Time, charges []Charge) Decision {
	now, it := algo.InstantOf(at), item{Charge: charges[0], limit: charges[0].Limit, want: charges[0].Cost}
	// The slices are those of the pooled request. New slices would escape to the heap for each request,
	// because they are arguments of an interface method.
	r.charges, r.results = append(r.charges[:0], charges[0]), append(r.results[:0], algo.Result{})
	allowed, err := l.store.Take(ctx, now, it.Subject, r.charges, r.results)
	d := Decision{Allowed: allowed, At: at}
	if err != nil {
		switch d.Reason = reasonOf(err); {
		case d.Reason == ReasonBusy:
			d.RetryAfter = l.busyWait()
		case it.limit.OnError == OnErrorAllow:
			d.Allowed = true
		default: // a Local store has no fallback
			d.Failed, d.LocalFull = true, it.limit.OnError == OnErrorLocal
		}
		l.log.failure(ctx, now, err)
		return d
	}
	d.Clamped = clamped(r.charges, r.results)
	if d.report(&it, r.results[0], now); d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Superseded {
		l.log.supersededBy(ctx, now, it.limit, r.results[0].Machine)
	}
	return d
}
