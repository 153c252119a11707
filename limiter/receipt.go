package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Receipt is for giving back what a request took: a login that succeeded, a request that
// failed. It is safe for concurrent use; nil has nothing to give back.
type Receipt struct {
	limiter *Limiter
	at      time.Time
	once    sync.Once
	refunds []refund
	kept    []kept
}

// TakeRefundable is Take, with a Receipt if the request is allowed; a nil one, which has
// nothing to give back, if it is refused.
func (l *Limiter) TakeRefundable(ctx context.Context, now time.Time, charges []Charge) (Decision, *Receipt, error) {
	r := &request{receipt: true} // not reused: the receipt keeps parts of it
	d, err := l.decide(ctx, r, now, charges)
	if err != nil || !d.Allowed {
		return d, nil, err
	}
	receipt := &Receipt{limiter: l, at: now}
	for _, k := range r.kept {
		if !k.item.Force {
			receipt.kept = append(receipt.kept, k)
		}
	}
	for i := range r.parts {
		p := &r.parts[i]
		if back := p.refund(); len(back.charges) > 0 {
			receipt.refunds = append(receipt.refunds, back)
		}
		for j := range p.items {
			if it := &p.items[j]; it.lease != nil && p.taken {
				receipt.kept = append(receipt.kept, kept{item: it, account: it.lease, allowed: true, serial: it.serial})
			}
		}
	}
	return d, receipt, nil
}

// Refund gives back what the request took, at most once, as far as that is safe: it never
// lets anyone through who would not have passed without the request. Windows and logs give back
// all; what a lease served goes back to the lease, and what a counter counted
// goes back if the store has not heard of it yet. A bucket that others have used since gives back what of the charge has not
// leaked away by now; what is on its way for longer than the deadline of a decision is
// lost. now is by the clock of the Take. It returns what became of the charges, and nothing
// the second time.
func (r *Receipt) Refund(ctx context.Context, now time.Time) (done Refunds) {
	if r == nil {
		return done
	}
	r.once.Do(func() {
		l := r.limiter
		if len(r.kept) > 0 {
			l.accounts.mu.Lock()
			for i := range r.kept {
				done.add(r.kept[i].undo())
			}
			l.accounts.mu.Unlock()
		}
		if l.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
			defer cancel()
		}
		for _, back := range r.refunds {
			done.add(l.giveBack(ctx, algo.InstantOf(now), back, max(0, now.Sub(r.at))))
		}
	})
	return done
}
