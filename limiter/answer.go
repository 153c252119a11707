package limiter

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// answer sets d to one decision from the answers to all asks. A refusal takes precedence over a store failure.
func (c *combiner) answer(ctx context.Context, d *Decision) {
	refused, failed := c.any((*ask).refuses), c.any((*ask).fails)
	*d = Decision{Allowed: !refused && !failed, Failed: failed && !refused, At: c.At, StoreCalls: c.corrected, StoreTime: c.storeTime,
		Refunds: c.refunds, Evicted: c.limiter.evicted()}
	early, busy, over := refused, false, false
	byStore := refused && c.any(func(a *ask) bool { return a.refuses() && a.Err == nil })
	for i := range c.asks {
		a := &c.asks[i]
		c.logFailures(ctx, a)
		d.count(a)
		switch {
		case a.Shadow:
			if a.Verdict == chain.Refused && d.Shadowed == nil && a.Exhausted() { // in a back-off, the limit may have room
				d.Shadowed = a.Refuser()
			}
		case a.over:
			over = true
		default:
			early = early && (a.Early || !a.refuses())
			busy = busy || a.Verdict == chain.Busy
			d.LocalFull = d.LocalFull || d.Failed && a.Full
			d.add(a, byStore && a.Err != nil)
		}
	}
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Allowed && over {
		c.reportOver(d)
	}
	if busy && d.Limit == nil {
		d.Reason, d.RetryAfter = ReasonBusy, c.limiter.busyWait()
	}
	d.FromCache = early && d.StoreCalls == 0 && d.Transfer.Calls == 0
	if d.Shadowed != nil {
		c.limiter.log.shadowRefused(ctx, c.Now, d.Shadowed)
	}
}

// count adds what the decision of a took.
func (d *Decision) count(a *ask) {
	d.StoreCalls += a.Calls
	d.Overshoot = max(d.Overshoot, a.Overshoot)
	d.Refunds.Add(a.Refunds)
	d.Transfer.Calls += a.Transfer.Calls
	d.Transfer.Moved += a.Transfer.Moved
	d.Transfer.Lost += a.Transfer.Lost
	d.Transfer.Failed += a.Transfer.Failed
	d.Clamped += a.Clamped
	for i := range a.Results {
		if a.Results[i].Clamped && a.Charges[i].Cost > 0 {
			d.Clamped++
		}
	}
}

// reportOver sets d.Over to the limit with Mark that refuses for the longest time. d reports its numbers only if it
// reports no other limit. They show no remaining quota, although the next request may still be allowed.
func (c *combiner) reportOver(d *Decision) {
	var over Decision
	for i := range c.asks {
		if a := &c.asks[i]; a.over {
			for j := range a.Lines {
				over.report(a, j, a.Charges[j].Limit, a.Results[j], a.Lines[j].LeaseLeft)
			}
		}
	}
	d.Over = over.Limit
	if over.Limit == nil || over.Limit.Global || d.Limit != nil {
		return
	}
	d.Limit, d.Superseded, d.Cost = over.Limit, over.Superseded, over.Cost
	d.Capacity, d.Remaining, d.ResetAfter = over.Capacity, over.Remaining, over.ResetAfter
}

// add adds the results of a to d. The limits of a are enforced, so they are not shadow limits. If silent is true, d does not
// report them, because a store refuses the request for another reason.
func (d *Decision) add(a *ask, silent bool) {
	switch {
	case d.Reason != ReasonNone:
	case a.Err != nil && !domain.Busy(a.Err):
		d.Reason = domain.ReasonOf(a.Err)
	case a.Degraded != nil && !domain.Busy(a.Degraded): // if only the subject is busy, its counter still decides
		d.Reason = domain.ReasonOf(a.Degraded)
	case a.Outage:
		d.Reason = ReasonOutage
	}
	if silent || a.Verdict != chain.Admitted && a.Verdict != chain.Refused || (a.Verdict == chain.Admitted) != d.Allowed {
		return
	}
	for i := range a.Lines {
		if !d.Allowed && !a.Lines[i].Limit.Enforced() {
			continue
		}
		d.report(a, i, a.Charges[i].Limit, a.Results[i], a.Lines[i].LeaseLeft)
		if mirrored := a.Lines[i].Mirrored; d.Allowed && mirrored != nil {
			d.report(a, i, a.Lines[i].Limit, *mirrored, a.Charges[i].Cost-a.Lines[i].Want)
		}
	}
}

// report makes d report the limit of charge i if that limit is stricter than the one that d reports. d.Allowed is
// already set. r is the state after the charge, or the state that refused it; it has no Machine if there is none. It is a
// state of charged: the limit, its shard or its local share.
func (d *Decision) report(a *ask, i int, charged *Limit, r algo.Result, leaseLeft int64) {
	if r.Machine == nil {
		return
	}
	line := &a.Lines[i]
	limit, remaining, capacity := line.Limit, r.Machine.Remaining(r.State, a.Now)+leaseLeft, r.Machine.Capacity()
	decided := charged.Is(r.Machine)
	if separate(limit) && charged != limit { // estimate: every other shard is assumed to hold as much as this one
		remaining, capacity = remaining*int64(limit.Spread.Shards), limit.Machine().Capacity()
	}
	share := limit.Spread.Sync > 0 && !decided // the share of this process decided, and not the whole limit
	if share {
		capacity = limit.Machine().Capacity()
	}
	var wait time.Duration
	if d.Allowed {
		if limit.Rate.Algorithm.Queues() && line.Want > 0 {
			d.Delay = max(d.Delay, algo.Delay(r.Machine, r.State, a.Now, line.Want))
		}
		if limit.Global || d.Limit != nil && !fewer(min(remaining, capacity), line.Want, d.Remaining, d.Cost) {
			return
		}
	} else {
		wait = a.wait(i, r)
		if wait == 0 || d.Limit != nil && wait <= d.RetryAfter {
			return
		}
	}
	d.Limit, d.Cost = limit, line.Want
	d.Superseded = !share && !decided || charged.IsLocalShare()
	d.Capacity = capacity
	d.Remaining = min(remaining, capacity)
	d.RetryAfter = wait
	d.ResetAfter = r.Machine.ResetAfter(r.State, a.Now)
}

// wait returns how long the limit of charge i refuses; 0 if it does not.
func (a *ask) wait(i int, r algo.Result) (wait time.Duration) {
	line := &a.Lines[i]
	if !a.Charges[i].Force {
		wait = max(line.BackOff, r.Machine.RetryAfter(r.State, a.Now, line.Want))
	}
	if line.Soon > 0 && wait != algo.Never {
		wait = min(wait, line.Soon)
	}
	if line.Limit.Concurrent() && wait > 0 && wait != algo.Never {
		wait = min(max(wait, minSlotWait), maxSlotWait)
	}
	return wait
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

// logFailures logs the failures of the store for a, and decisions that the store made by newer rules.
func (c *combiner) logFailures(ctx context.Context, a *ask) {
	log := &c.limiter.log
	if domain.Busy(a.Err) {
		log.problem(ctx, c.Now, slog.LevelWarn, "subject busy", a.Err)
	} else if a.Err != nil {
		log.failure(ctx, c.Now, a.Err)
	}
	if a.Degraded != nil {
		log.failure(ctx, c.Now, a.Degraded)
	}
	for i := range a.Lines {
		if limit := a.Lines[i].Limit; a.Results[i].Machine != nil && limit.Spread.Sync == 0 && !a.Decided(i) {
			log.supersededBy(ctx, c.Now, limit, a.Results[i].Machine)
		}
	}
}
