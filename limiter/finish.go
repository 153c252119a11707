package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
)

// finish refunds the admitted asks of a denied request, and writes the notices of an admitted one.
func (c *combiner) finish(ctx context.Context) {
	denied := c.refused() || c.failed()
	if denied && len(c.asks) > 1 && !c.Look {
		c.refund()
	}
	if c.notify && !c.Look && !denied && c.limiter.notices != nil {
		c.writeNotices(ctx)
	}
}

// refund corrects the admitted asks to the cost 0.
func (c *combiner) refund() {
	done := make([]chain.Correction, len(c.asks))
	elapsed := time.Since(c.began)
	for i := range c.asks {
		a := &c.asks[i]
		if a.Verdict != chain.Admitted || a.over {
			continue
		}
		done[i] = a.Correct(func(Charge) int64 { return 0 })
		if len(done[i].Parts) > 0 {
			done[i].Request, done[i].Elapsed = &c.Request, elapsed
			c.calls.Add(func() { c.limiter.correct(a.layer, &done[i]) })
		}
	}
	began := time.Now()
	c.Deadline()
	c.calls.Run(c.limiter.clock)
	for i := range done {
		c.refunds.Add(Refunds{Given: done[i].Given, Dropped: done[i].Dropped + done[i].Lost})
		c.corrected += done[i].Calls
	}
	if c.corrected > 0 {
		c.storeTime += time.Since(began)
	}
}

// correct makes a correction.
func (l *Limiter) correct(layer chain.Layer, done *chain.Correction) {
	l.health.Active.Add(1)
	defer func() {
		l.health.Settled.Add(1)
		l.health.Active.Add(-1)
	}()
	layer.Settle(done)
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
