package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Receipt refunds what a request was charged, for example for a login that succeeded or a request that
// failed. It is safe for concurrent use. A nil Receipt refunds nothing.
type Receipt struct {
	limiter     *Limiter
	at          time.Time
	once        sync.Once
	refundables []refundable
	served      []served
}

// TakeRefundable decides like Take, and returns a Receipt that refunds the charges. The Receipt is nil
// if the request is denied.
func (l *Limiter) TakeRefundable(ctx context.Context, now time.Time, charges []Charge) (Decision, *Receipt, error) {
	r := &request{receipt: true} // it is not pooled, because the receipt keeps its slices
	d, err := l.decide(ctx, r, now, charges)
	if err != nil || !d.Allowed {
		return d, nil, err
	}
	receipt := &Receipt{limiter: l, at: now}
	for _, s := range r.served {
		if !s.item.Force {
			receipt.served = append(receipt.served, s)
		}
	}
	for i := range r.batches {
		b := &r.batches[i]
		if back := b.refundable(); len(back.charges) > 0 {
			receipt.refundables = append(receipt.refundables, back)
		}
		for j := range b.items {
			if it := &b.items[j]; it.lease != nil && b.taken {
				receipt.served = append(receipt.served, served{item: it, tracker: it.lease, allowed: true, serial: it.serial})
			}
		}
	}
	return d, receipt, nil
}

// Refund refunds the charges of the request, as far as this is safe: a refund never admits a request
// that would be denied if this request had never been made.
//
//   - Windows and logs refund the whole charge.
//   - A bucket that other requests have used since refunds the part that has not leaked by now.
//   - A lease serves the refunded quota again.
//   - A counter refunds what it has not sent to the store.
//
// A refund that takes longer than Options.Timeout is dropped. now MUST be read from the same clock as
// the instant of the Take. A second call does nothing and returns zero.
func (r *Receipt) Refund(ctx context.Context, now time.Time) (done Refunds) {
	if r == nil {
		return done
	}
	r.once.Do(func() {
		l := r.limiter
		if len(r.served) > 0 {
			l.trackers.mu.Lock()
			for i := range r.served {
				done.add(r.served[i].undo())
			}
			l.trackers.mu.Unlock()
		}
		if l.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
			defer cancel()
		}
		for _, back := range r.refundables {
			done.add(l.refund(ctx, algo.InstantOf(now), back, max(0, now.Sub(r.at))))
		}
	})
	return done
}
