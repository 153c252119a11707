// Package deny is the layer of the denial cache: it refuses what the store has refused shortly before.
package deny

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
)

// Deny refuses requests by the cache, and gives the layers below the states that this process last saw.
type Deny struct {
	Below chain.Layer
	*chain.Process
}

// Know implements chain.Layer.
func (d *Deny) Know(a *chain.Ask) bool {
	line := func(i int) (cost int64, backOff *time.Duration) {
		return min(a.Charges[i].Cost, a.Lines[i].Want), &a.Lines[i].BackOff // without a spare
	}
	if !d.Cache.Lookup(a.Now, a.Charges, a.Results, line, !a.Counted) {
		return false
	}
	a.Verdict, a.Early = chain.Refused, true
	return true
}

// Take implements chain.Layer. It lowers spares near the limit.
func (d *Deny) Take(a *chain.Ask) {
	if d.Know(a) {
		return
	}
	a.BoundSpares()
	d.Below.Take(a)
}

// Settle implements chain.Layer. It keeps the cached states in step with the corrections: a store that fails may have made
// a forced charge.
func (d *Deny) Settle(c *chain.Correction) {
	var forced []chain.Part
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Done {
			continue
		}
		d.Cache.Expire(p.Charge.Subject)
		switch {
		case p.Charge.Force:
			d.Cache.BeginCharge(c.Now, p.Charge.Subject, p.Charge.Limit.ID)
			forced = append(forced, *p)
		case algo.TakesSlots(p.Result.Machine):
			d.Cache.Release(p.Charge.Subject, p.Charge.Limit.ID, p.Charge.Cost, p.Result)
		}
	}
	d.Below.Settle(c)
	for _, p := range forced {
		d.Cache.Charge(c.Now, p.Charge.Subject, p.Charge.Limit.ID, p.Charge.Cost)
	}
}
