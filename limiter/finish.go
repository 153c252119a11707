package limiter

import (
	"context"
	"slices"
	"time"
)

// finish gives new leases to their trackers. If the request is denied, it refunds what was charged, as far as that is
// safe. It writes the notices that are due, unless the request was denied before the stores were called.
func (r *request) finish(ctx context.Context, early bool) {
	denied := r.denied()
	if len(r.renewals) > 0 || len(r.served) > 0 {
		r.returnLeases(denied)
		r.limiter.refundMirrors(r.now, r.served, 0)
	}
	if denied && len(r.batches) > 1 {
		r.refundBatches(ctx)
	}
	if r.notify && !r.look && !early {
		r.writeNotices(ctx)
	}
}

// refundBatches refunds the batches that were charged before another batch refused the request.
func (r *request) refundBatches(ctx context.Context) {
	if !slices.ContainsFunc(r.batches, func(b batch) bool { return b.taken }) {
		return
	}
	ctx = r.deadline(ctx)
	elapsed, began, remote := time.Since(r.chargedAt), time.Now(), 0
	done := make([]Refunds, len(r.batches))
	p := &r.parallel
	for i := range r.batches {
		if back := r.batches[i].refundable(); len(back.charges) > 0 {
			if back.remote {
				remote++
			}
			p.add(func() { done[i] = r.limiter.refund(ctx, r.now, back, elapsed) })
		}
	}
	p.run(r.limiter.concurrentClock())
	for _, d := range done {
		r.refunds.add(d)
	}
	if r.storeCalls += remote; remote > 0 {
		r.storeTime += time.Since(began)
	}
}

// writeNotices writes the notices that are due after the decision of r. A denied request can cause a
// notice too, because its states can show a percentage that has no flag. Counts of the fallback cause no
// notice, because it does not know the usage of all processes.
func (r *request) writeNotices(ctx context.Context) {
	l, denied := r.limiter, r.denied()
	if l.notices == nil {
		return
	}
	bounded := false
	for i := range r.batches {
		b := &r.batches[i]
		if b.err != nil || b.remote != l.sharesStore() {
			continue
		}
		for j := range b.tasks {
			it := &b.tasks[j]
			if !it.original.notifies() || b.results[j].Machine == nil || !it.decided(b.results[j]) {
				continue
			}
			charge := b.charges[j]
			if denied || !b.taken {
				charge.Cost = 0
			}
			u := observed{charge, b.results[j]}
			due := l.notices.due(r.now, &u)
			if len(due) == 0 {
				continue
			}
			if !bounded {
				var cancel context.CancelFunc
				ctx, cancel = l.notices.bounded(ctx)
				defer cancel()
				bounded = true
			}
			calls := l.notices.after(ctx, r.now, &u, due)
			if b.remote {
				r.storeCalls += calls
			}
		}
	}
}
