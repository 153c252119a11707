package limiter

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// answer sets d to the decision. early means that phase 2 or 4 denied the request, before the stores were
// called.
func (r *request) answer(ctx context.Context, early bool, d *Decision) {
	l := r.limiter
	r.logFailures(ctx)
	r.combine(d)
	d.FromCache = early && d.StoreCalls == 0 && d.Transfer.Calls == 0
	if d.Reason == ReasonBusy {
		d.RetryAfter = l.busyWait()
	}
	if d.Shadowed != nil {
		l.log.shadowRefused(ctx, r.now, d.Shadowed)
	}
}

// combine sets d to one decision from the answers of all batches and trackers. A refusal takes precedence
// over a store failure.
func (r *request) combine(d *Decision) {
	*d = Decision{Allowed: !r.denied(), Failed: r.failed, LocalFull: r.fallbackFull, At: r.at, Overshoot: r.overshoot,
		StoreCalls: r.storeCalls, StoreTime: r.storeTime, Refunds: r.refunds, Clamped: r.clamped, Transfer: r.moved}
	if r.counterErr != nil && !busy(r.counterErr) { // if only the subject is busy, its counter still decides
		d.Reason = reasonOf(r.counterErr)
	}
	if r.shared {
		r.flagElsewhere()
	}
	subjectBusy, over := false, false
	for i := range r.batches {
		b := &r.batches[i]
		d.StoreCalls += b.calls
		d.Clamped += clamped(b.charges, b.results)
		if b.shadow() {
			if b.refused && d.Shadowed == nil {
				d.Shadowed = b.refuser(r.now)
			}
			continue
		}
		if b.skipped { // limits with Mark refuse
			over = true
			continue
		}
		subjectBusy = subjectBusy || busy(b.err)
		d.add(b, r.now)
	}
	for i := range r.served {
		switch s := &r.served[i]; {
		case !s.task.original.Shadow && s.task.original.Mark && !s.allowed:
			over = true
		case !s.task.original.Shadow && s.allowed == d.Allowed:
			d.report(s.task, s.result, r.now)
		case s.task.original.Shadow && !s.allowed && d.Shadowed == nil:
			d.Shadowed = s.task.original
		}
	}
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Allowed && over {
		r.reportOver(d)
	}
	if subjectBusy && d.Limit == nil {
		d.Reason = ReasonBusy
	}
}

// reportOver sets d.Over to the limit with Mark that refuses for the longest time. d reports its numbers only if it
// reports no other limit. They show no remaining quota, although the next request may still be allowed.
func (r *request) reportOver(d *Decision) {
	var over Decision
	for i := range r.batches {
		for j, task := range r.batches[i].tasks {
			if b := &r.batches[i]; b.skipped && !b.shadow() && b.results[j].Machine != nil {
				over.report(&task, b.results[j], r.now)
			}
		}
	}
	for i := range r.served {
		if s := &r.served[i]; !s.allowed && s.task.original.Mark && !s.task.original.Shadow {
			over.report(s.task, s.result, r.now)
		}
	}
	d.Over = over.Limit
	if over.Limit == nil || over.Limit.Global || d.Limit != nil {
		return
	}
	d.Limit, d.Superseded, d.Cost = over.Limit, over.Superseded, over.Cost
	d.Capacity, d.Remaining, d.ResetAfter = over.Capacity, over.Remaining, over.ResetAfter
}

// add adds the results of the batch b to d. The limits of b are enforced, so they are not shadow limits.
func (d *Decision) add(b *batch, now algo.Instant) {
	switch {
	case d.Reason != ReasonNone:
	case b.err != nil && !busy(b.err):
		d.Reason = reasonOf(b.err)
	case b.repeats && b.refused:
		d.Reason = ReasonOutage
	}
	if b.err != nil && !b.refused || b.refused == d.Allowed {
		return
	}
	for i := range b.tasks {
		if b.results[i].Machine != nil && (d.Allowed || b.tasks[i].original.enforced()) {
			d.report(&b.tasks[i], b.results[i], now)
		}
	}
}

// report makes d report the limit of the task if that limit is stricter than the one that d reports. d.Allowed is
// already set. r is the state after the charge, or the state that refused it.
func (d *Decision) report(task *task, r algo.Result, now algo.Instant) {
	remaining, capacity := r.Machine.Remaining(r.State, now)+task.leaseLeft, r.Machine.Capacity()
	if task.sharded { // estimate: every other shard is assumed to hold as much as this one
		remaining, capacity = remaining*int64(task.original.Spread.Shards), task.original.machine.Capacity()
	}
	share := task.original.Spread.Sync > 0 && !task.decided(r) // the share of this process decided, and not the whole limit
	if share {
		capacity = task.original.machine.Capacity()
	}
	var wait time.Duration
	if d.Allowed {
		if task.original.Rate.Algorithm.Queues() && task.want > 0 {
			d.Delay = max(d.Delay, algo.Delay(r.Machine, r.State, now, task.want))
		}
		if task.original.Global || d.Limit != nil && !fewer(min(remaining, capacity), task.want, d.Remaining, d.Cost) {
			return
		}
	} else {
		if !task.Force {
			wait = max(task.backOff, r.Machine.RetryAfter(r.State, now, task.want))
		}
		if task.elsewhere && wait != algo.Never {
			wait = min(wait, transferPause)
		}
		if task.original.concurrent() && wait > 0 && wait != algo.Never {
			wait = min(max(wait, minSlotWait), maxSlotWait)
		}
		if wait == 0 || d.Limit != nil && wait <= d.RetryAfter {
			return
		}
	}
	d.Limit, d.Cost = task.original, task.want
	d.Superseded = !share && !task.decided(r) || task.Limit.isLocalShare
	d.Capacity = capacity
	d.Remaining = min(remaining, capacity)
	d.RetryAfter = wait
	d.ResetAfter = r.Machine.ResetAfter(r.State, now)
}

// The RetryAfter of a concurrent limit is in this range, because a slot is usually released before it
// expires.
const (
	minSlotWait = time.Second
	maxSlotWait = 3 * time.Second
)

// fewer reports whether one limit admits fewer further requests than another limit. remaining and cost are the
// remaining quota of the one limit and the cost of a request. than and at are those of the other limit. If both
// admit the same number, fewer compares the quotas.
func fewer(remaining, cost, than, at int64) bool {
	one, other := remaining/max(1, cost), than/max(1, at)
	return one < other || one == other && remaining < than
}

// busyWait returns how long the caller of a busy subject should wait. It is random, so that requests
// that were denied together do not return together.
func (l *Limiter) busyWait() time.Duration { return time.Duration(1+l.intN(3)) * time.Second }

// logFailures logs the failures of stores during r, and decisions that a store made by newer rules.
func (r *request) logFailures(ctx context.Context) {
	log := &r.limiter.log
	for i := range r.batches {
		b := &r.batches[i]
		if busy(b.err) {
			log.problem(ctx, r.now, slog.LevelWarn, "subject busy", b.err)
		} else if b.err != nil {
			log.failure(ctx, r.now, b.err)
		}
		for j := range b.tasks {
			if task := &b.tasks[j]; b.results[j].Machine != nil && !task.decided(b.results[j]) {
				log.supersededBy(ctx, r.now, task.original, b.results[j].Machine)
			}
		}
	}
	if r.counterErr != nil {
		log.failure(ctx, r.now, r.counterErr)
	}
}
