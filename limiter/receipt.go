package limiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
)

// Receipt corrects what a request was charged, when its cost is known. For example, it refunds a login
// that succeeded, or charges the tokens of an answer. It is safe for concurrent use. A nil Receipt
// corrects nothing.
type Receipt struct {
	limiter *Limiter
	at      time.Time
	once    sync.Once
	asks    []ask
}

// TakeRefundable decides like Take, and returns a Receipt for the charges. The Receipt is nil if the
// request is denied.
func (l *Limiter) TakeRefundable(ctx context.Context, now time.Time, charges []Charge) (d Decision, receipt *Receipt, err error) {
	c := &combiner{} // it is not pooled, because the receipt keeps its asks
	err = l.decide(ctx, c, now, charges, false, &d)
	if err != nil || !d.Allowed {
		return d, nil, err
	}
	return d, &Receipt{limiter: l, at: now, asks: c.asks}, nil
}

// Settlement is the result of Receipt.Settle.
type Settlement struct {
	// Refunds counts the charges whose final cost is less than the cost that Take charged.
	// Refunds.Dropped counts those that could not be refunded safely, not even in part.
	Refunds Refunds
	// Charged counts the charges whose final cost is more than the cost that Take charged.
	Charged int
	// Lost is the number of corrections that a store did not make because it failed. In the store, these charges
	// keep the cost that Take charged. If the limit has OnErrorLocal, this process counts a higher cost by itself.
	Lost int
	// Excess are the costs that exceeded the max debt and were not counted.
	Excess []Excess
}

// Excess is a cost that exceeded the max debt of a limit.
type Excess struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
}

// Add adds the result of another settlement.
func (s *Settlement) Add(other Settlement) {
	s.Refunds.Add(other.Refunds)
	s.Charged += other.Charged
	s.Lost += other.Lost
	s.Excess = append(s.Excess, other.Excess...)
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
	return Refunds{Given: s.Refunds.Given, Dropped: s.Refunds.Dropped + s.Lost}
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
	r.once.Do(func() { done = r.settle(ctx, now, actual) })
	return done
}

// settle corrects the asks, and logs and reports what became of it.
func (r *Receipt) settle(ctx context.Context, now time.Time, actual func(Charge) int64) (done Settlement) {
	l := r.limiter
	request := chain.NewRequest(ctx, now, false, &l.timeouts)
	defer request.End()
	corrections := l.correct(r.asks, &request, max(0, now.Sub(r.at)), func(c Charge) int64 { return max(0, actual(c)) })
	for i := range corrections {
		c := &corrections[i]
		s := Settlement{Refunds: Refunds{Given: c.Given + c.Returned, Dropped: c.Dropped}, Charged: c.Charged, Lost: c.Lost}
		for _, e := range c.Excess {
			s.Excess = append(s.Excess, Excess{c.Subject, e.Limit, e.Cost})
		}
		done.Add(s)
		if c.Err != nil {
			l.log.problem(ctx, c.Now, slog.LevelWarn, "settlement lost", c.Err)
		}
		if c.Charged > 0 && l.notices != nil {
			l.noticesAfter(c)
		}
	}
	return done
}

// noticesAfter writes the notices of forced charges of a settlement. Store.Settle returns no states, so noticesAfter
// reads the states of limits that are near a percentage.
func (l *Limiter) noticesAfter(c *chain.Correction) {
	for i := range c.Parts {
		p := &c.Parts[i]
		charge, ctx := p.Charge, c.Deadline()
		decided := func(r algo.Result) bool { return r.Machine != nil && charge.Limit.Is(r.Machine) }
		if !charge.Force || p.Local || !charge.Limit.Notifies() || !decided(p.Result) || !mayCross(c.Now, charge, p.Result) {
			continue
		}
		look, results := Charge{Subject: charge.Subject, Limit: charge.Limit}, make([]algo.Result, 1)
		if _, err := l.store.Take(ctx, c.Now, charge.Subject, []Charge{look}, results); err == nil && decided(results[0]) {
			l.notices.crossed(ctx, c.Now, charge, results[0])
		}
	}
}
