package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/parallel"
)

// finish refunds the admitted asks of a denied request, and writes the notices of an admitted one.
func (c *combiner) finish(ctx context.Context) {
	denied := c.any((*ask).refuses) || c.any((*ask).fails)
	if denied && len(c.asks) > 1 && !c.Look {
		c.refund()
	}
	if c.notify && !c.Look && !denied && c.limiter.notices != nil {
		c.writeNotices(ctx)
	}
}

// refund corrects the admitted asks to the cost 0.
func (c *combiner) refund() {
	began := time.Now()
	c.renew()
	for _, done := range c.limiter.correct(c.asks, &c.Request, began.Sub(c.began), func(Charge) int64 { return 0 }) {
		c.refunds.Add(Refunds{Given: done.Given, Dropped: done.Dropped + done.Lost})
		c.corrected += done.Calls
	}
	if c.corrected > 0 {
		c.storeTime += time.Since(began)
	}
}

// correct corrects the admitted asks to their actual costs, all at the same time. elapsed is the time since they were taken.
func (l *Limiter) correct(asks []ask, request *chain.Request, elapsed time.Duration, actual func(Charge) int64) []chain.Correction {
	done := make([]chain.Correction, len(asks))
	var calls parallel.Calls
	for i := range asks {
		a, c := &asks[i], &done[i]
		if a.Verdict != chain.Admitted || a.over {
			continue
		}
		*c = a.Correct(actual)
		if len(c.Parts) == 0 {
			continue
		}
		c.Request, c.Elapsed = request, elapsed
		calls.Add(func() {
			l.health.Active.Add(1)
			defer func() {
				l.health.Settled.Add(1)
				l.health.Active.Add(-1)
			}()
			a.layer.Settle(c)
		})
	}
	if len(asks) > 1 {
		request.Deadline()
	}
	calls.Run(l.clock)
	return done
}

// writeNotices writes the notices of the charges of c. A denied request charges nothing. Counts of the fallback cause no
// notice, because it does not know the usage of all processes.
func (c *combiner) writeNotices(ctx context.Context) {
	for i := range c.asks {
		a := &c.asks[i]
		if a.Verdict != chain.Admitted || a.Err != nil || a.over {
			continue
		}
		for j := range a.Lines {
			if a.Lines[j].Limit.Notifies() && a.Charges[j].Cost > 0 && a.Decided(j) {
				c.limiter.notices.crossed(ctx, c.Now, a.Charges[j], a.Results[j])
			}
		}
	}
}
