package limiter

import "context"

// writeNotices writes the notices that are due after the decision of r. A denied request can cause a
// notice too, because its states can show a percentage that has no mark. Counts of the fallback cause no
// notice, because it does not know the usage of all processes.
func (r *request) writeNotices(ctx context.Context) {
	l, denied := r.limiter, r.denied()
	if l.notices == nil {
		return
	}
	for i := range r.batches {
		b := &r.batches[i]
		if b.err != nil || b.remote != l.shares() {
			continue
		}
		for j := range b.items {
			it := &b.items[j]
			if !it.limit.notifies() || b.results[j].Machine == nil || !it.decided(b.results[j]) {
				continue
			}
			charge := b.charges[j]
			if denied || !b.taken {
				charge.Cost = 0
			}
			calls := l.notices.after(ctx, r.now, &usage{charge, b.results[j]})
			if b.remote {
				r.storeCalls += calls
			}
		}
	}
}
