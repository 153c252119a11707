package limiter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Receipt corrects what a request was charged, when its cost is known. For example, it refunds a login
// that succeeded, or charges the tokens of an answer. It is safe for concurrent use. A nil Receipt
// corrects nothing.
type Receipt struct {
	limiter     *Limiter
	at          time.Time
	once        sync.Once
	refundables []refundable
	served      []served
}

// TakeRefundable decides like Take, and returns a Receipt for the charges. The Receipt is nil if the
// request is denied.
func (l *Limiter) TakeRefundable(ctx context.Context, now time.Time, charges []Charge) (d Decision, receipt *Receipt, err error) {
	r := &request{receipt: true} // it is not pooled, because the receipt keeps its slices
	err = l.decide(ctx, r, now, charges, &d)
	if err != nil || !d.Allowed {
		return d, nil, err
	}
	receipt = &Receipt{limiter: l, at: now}
	for _, s := range r.served {
		if !s.task.Force {
			receipt.served = append(receipt.served, s)
		}
	}
	for i := range r.batches {
		b := &r.batches[i]
		if back := b.refundable(); len(back.charges) > 0 {
			receipt.refundables = append(receipt.refundables, back)
		}
		for j := range b.tasks {
			if task := &b.tasks[j]; task.lease != nil && b.taken {
				receipt.served = append(receipt.served, served{task: task, tracker: task.lease, allowed: true, result: b.results[j],
					serial: task.serial})
			}
		}
	}
	return d, receipt, nil
}

// Refund settles every charge at the cost 0. A refund does not create quota: after it, no limit admits
// more than if the request of r had never been made.
//
//   - Windows and logs refund the whole charge.
//   - A bucket that other requests have used since the charge refunds the part that has not leaked.
//   - A lease gets the refunded quota back, for further requests. If the lease has ended, a window in the store
//     gets it back. The quota of a bucket's lease has then leaked.
//   - A counter refunds charges that it has not sent to the store.
func (r *Receipt) Refund(ctx context.Context, now time.Time) Refunds {
	s := r.Settle(ctx, now, func(Charge) int64 { return 0 })
	return Refunds{s.Refunds.Given, s.Refunds.Dropped + s.Lost}
}

// Settle corrects each charge to its actual cost, which the function actual returns. It makes one store call
// for each subject with a changed cost.
//
//   - If the cost is lower, Settle refunds the difference as Refund does.
//   - If the cost is higher, Settle charges the difference, even beyond the limit; algo.Machine.Force
//     bounds the debt. Set Limit.Count for such limits: requests can still use what processes have leased of a limit
//     without a Count.
//   - A cost below 0 counts as 0.
//   - A limit with Spread.Sync only refunds whole charges.
//
// A settlement that takes longer than Options.Timeout is lost, unless the store needs time to connect (see
// Remote). now MUST be read from the same clock as the instant of the Take. A Receipt settles once: a second call
// of Settle or Refund does nothing and returns zero.
func (r *Receipt) Settle(ctx context.Context, now time.Time, actual func(Charge) int64) (done Settlement) {
	if r == nil {
		return done
	}
	r.once.Do(func() {
		cost := func(c Charge) int64 { return max(0, actual(c)) }
		corrections := make([]refundable, 0, len(r.refundables))
		for i := range r.refundables {
			if c := r.refundables[i].corrections(cost); len(c.charges) > 0 {
				corrections = append(corrections, c)
			}
		}
		corrections = r.settleServed(now, cost, corrections, &done)
		r.limiter.refundMirrors(algo.InstantOf(now), r.served, max(0, now.Sub(r.at)))
		r.limiter.settleStores(ctx, now, corrections, max(0, now.Sub(r.at)), &done)
	})
	return done
}

// settleServed corrects the charges that trackers of this process decided. A lease gets a refund back. If it cannot
// use the refund, or if the actual cost is higher, settleServed adds a correction of the store, which counts the whole
// lease.
func (r *Receipt) settleServed(now time.Time, actual func(Charge) int64, corrections []refundable, done *Settlement) []refundable {
	if len(r.served) == 0 {
		return corrections
	}
	l := r.limiter
	l.trackers.mu.Lock()
	defer l.trackers.mu.Unlock()
	for i := range r.served {
		s := &r.served[i]
		if !s.allowed || s.task.Cost == 0 {
			continue
		}
		more := actual(s.task.charge()) - s.task.want
		switch counter := s.task.original.Spread.hasCounter(); {
		case more == 0:
		case more < 0 && s.giveBack(algo.InstantOf(now), -more):
			done.Refunds.Given++
		case counter || more < 0 && algo.Leaks(s.result.Machine):
			done.Refunds.Dropped++
		default:
			c := s.task.Charge
			c.Cost, c.Force = max(more, -more), more > 0
			corrections = addCorrection(corrections, l, s, c)
		}
	}
	return corrections
}

// addCorrection adds a correction of a leased charge to the corrections on its subject. A store takes at most
// MaxCharges in one call.
func addCorrection(corrections []refundable, l *Limiter, s *served, c Charge) []refundable {
	i := slices.IndexFunc(corrections, func(r refundable) bool {
		return r.remote && r.subject == c.Subject && len(r.charges) < MaxCharges
	})
	if i < 0 {
		i, corrections = len(corrections), append(corrections, refundable{store: l.store, subject: c.Subject, remote: true})
	}
	corrections[i].add(s.task, c, s.result, algo.Result{})
	return corrections
}
