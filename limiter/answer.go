package limiter

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// answer returns the decision of charges. recalled means that no store was charged, because this
// process knew a refusal.
func (r *request) answer(ctx context.Context, charges []Charge, recalled bool) Decision {
	l := r.limiter
	r.logFailures(ctx)
	d := r.fold()
	d.Charges = charges
	d.FromCache = recalled && d.StoreCalls == 0
	if d.Reason == ReasonBusy {
		d.RetryAfter = l.busyWait()
	}
	if d.Shadowed != nil {
		l.log.refused(ctx, r.now, d.Shadowed)
	}
	return d
}

// fold folds the answers of all parts and accounts: a refusal comes first, then the failure of a
// store.
func (r *request) fold() Decision {
	d := Decision{Allowed: !r.denied(), Failed: r.failed, LocalFull: r.full, At: r.at, Overshoot: r.overshoot,
		StoreCalls: r.calls, StoreTime: r.stored, Refunds: r.refunds, Clamped: r.clamped}
	if r.failure != nil && !busy(r.failure) { // the counter of a busy subject decides as usual
		d.Reason = reasonOf(r.failure)
	}
	pressed := false
	for i := range r.parts {
		p := &r.parts[i]
		d.StoreCalls += p.calls
		d.Clamped += clamped(p.charges, p.results)
		if p.shadow() {
			if p.refused && d.Shadowed == nil {
				d.Shadowed = p.refuser(r.now)
			}
			continue
		}
		pressed = pressed || busy(p.err)
		d.add(p, r.now)
	}
	for i := range r.kept {
		switch k := &r.kept[i]; {
		case !k.item.limit.Shadow && k.allowed == d.Allowed:
			d.report(k.item, k.result, r.now)
		case k.item.limit.Shadow && !k.allowed && d.Shadowed == nil:
			d.Shadowed = k.item.limit
		}
	}
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if pressed && d.Limit == nil {
		d.Reason = ReasonBusy
	}
	return d
}

// add adds the answer of a part that is enforced.
func (d *Decision) add(p *part, now algo.Instant) {
	if p.err != nil && !busy(p.err) && d.Reason == ReasonNone {
		d.Reason = reasonOf(p.err)
	}
	if p.err != nil && !p.refused || p.refused == d.Allowed {
		return
	}
	for i := range p.items {
		if p.results[i].Machine != nil {
			d.report(&p.items[i], p.results[i], now)
		}
	}
}

// report makes d report the limit of an item if it is stricter than the limit that d reports.
// d.Allowed is already decided; r is the state after the charge, or the one that refused it.
func (d *Decision) report(it *item, r algo.Result, now algo.Instant) {
	remaining, capacity := r.Machine.Remaining(r.State, now)+it.spare, r.Machine.Capacity()
	if it.sharded { // an estimate: the other shards are about as full
		remaining, capacity = remaining*int64(it.limit.Spread.Shards), it.limit.machine.Capacity()
	}
	share := it.limit.Spread.Adaptive && !it.decided(r) // the share of this process decided
	if share {
		capacity = it.limit.machine.Capacity()
	}
	var wait time.Duration
	if d.Allowed {
		if queue, ok := r.Machine.(*algo.Bucket); ok && it.limit.Rate.Algorithm == algo.LeakyBucket && it.want > 0 {
			d.Delay = max(d.Delay, queue.Delay(r.State, now, it.want))
		}
		if it.limit.Global || d.Limit != nil && remaining >= d.Remaining {
			return
		}
	} else {
		if !it.Force {
			wait = max(it.hold, r.Machine.RetryAfter(r.State, now, it.want))
		}
		if wait == 0 || d.Limit != nil && wait <= d.RetryAfter {
			return
		}
	}
	d.Limit, d.Cost = it.limit, it.want
	d.Superseded = !share && !it.decided(r) || it.Limit.isShare
	d.Capacity = capacity
	d.Remaining = min(remaining, capacity)
	d.RetryAfter = wait
	d.ResetAfter = r.Machine.ResetAfter(r.State, now)
}

// busyWait returns when the caller of a busy subject may try again. It is random, so that requests
// that were refused together do not come back together.
func (l *Limiter) busyWait() time.Duration { return time.Duration(1+l.intN(3)) * time.Second }

// logFailures logs how stores failed r, and that newer rules of a store decided.
func (r *request) logFailures(ctx context.Context) {
	log := &r.limiter.log
	for i := range r.parts {
		p := &r.parts[i]
		if busy(p.err) {
			log.problem(ctx, r.now, slog.LevelWarn, "subject busy", p.err)
		} else if p.err != nil {
			log.failure(ctx, r.now, p.err)
		}
		for j := range p.items {
			if it := &p.items[j]; p.results[j].Machine != nil && !it.decided(p.results[j]) {
				log.decidedBy(ctx, r.now, it.limit, p.results[j].Machine)
			}
		}
	}
	if r.failure != nil {
		log.failure(ctx, r.now, r.failure)
	}
}
