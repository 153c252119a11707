package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Receipt refunds what a request took, for example a login that succeeded or a request that failed.
// It is safe for concurrent use; nil refunds nothing.
type Receipt struct {
	limiter *Limiter
	at      time.Time
	once    sync.Once
	refunds []refund
	kept    []kept
}

// TakeRefundable is Take with a Receipt; the Receipt is nil if the request is denied.
func (l *Limiter) TakeRefundable(ctx context.Context, now time.Time, charges []Charge) (Decision, *Receipt, error) {
	r := &request{receipt: true} // not from the pool: the receipt keeps parts of it
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

// Refund gives back what the request took, at most once and as far as that is safe: it never admits
// a request that would not have been admitted without this one.
//
//   - Windows and logs give back all.
//   - A bucket that was used since gives back the part of the charge that has not leaked by now.
//   - A lease gets back what it served.
//   - A counter gets back what it has not sent to the store.
//
// A refund that takes longer than Options.Timeout is dropped. now is by the clock of the Take. The
// second call does nothing and returns zero.
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
