package limiter

import (
	"context"
	"slices"
	"time"
)

// finish gives new leases to their trackers. If the request is denied, it refunds what was charged, as far as that is
// safe. It writes the notices of an admitted request.
func (r *request) finish(ctx context.Context) {
	denied := r.denied()
	if len(r.renewals) > 0 || len(r.served) > 0 {
		r.returnLeases(denied)
		r.limiter.refundMirrors(r.now, r.served, 0)
	}
	if denied && len(r.batches) > 1 {
		r.refundBatches(ctx)
	}
	if r.notify && !r.look && !denied && r.limiter.notices != nil {
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
	r.storeCalls += remote
	if remote > 0 {
		r.storeTime += time.Since(began)
	}
}

// writeNotices writes the notices of the charges of r. A denied request charges nothing. Counts of the fallback cause no
// notice, because it does not know the usage of all processes.
func (r *request) writeNotices(ctx context.Context) {
	l := r.limiter
	for i := range r.batches {
		b := &r.batches[i]
		if !b.taken || b.err != nil || b.remote != l.sharesStore() {
			continue
		}
		for j := range b.tasks {
			if task := &b.tasks[j]; task.original.notifies() && b.charges[j].Cost > 0 && task.decided(b.results[j]) {
				l.notices.crossed(ctx, r.now, b.charges[j], b.results[j])
			}
		}
	}
}
