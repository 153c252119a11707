package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// plain is the ask of a request with one plain limit on a store of this process, and its memory. Such an ask enters no layer.
type plain struct {
	ask
	request chain.Request
	lines   [1]chain.Line
	charges [1]Charge
	results [1]algo.Result
}

// plains is a pool of asks that are reused.
var plains = sync.Pool{New: func() any {
	p := &plain{}
	p.Request, p.Lines, p.Charges, p.Results = &p.request, p.lines[:], p.charges[:], p.results[:]
	return p
}}

// isPlain reports whether a request with these charges on a store of this process can be a plain one.
func (l *Limiter) isPlain(charges []Charge) bool {
	if len(charges) != 1 || charges[0].Limit == nil {
		return false
	}
	limit := charges[0].Limit
	return !limit.Shadow && !limit.Mark && limit.Regions() == nil && limit.Spread.Shards == 0 && (!limit.Notifies() || l.notices == nil)
}

// takePlain decides a plain request. ok is false if the store failed, so that OnError decides.
func (l *Limiter) takePlain(ctx context.Context, now time.Time, charge *Charge, look bool, d *Decision) (ok bool, err error) {
	p := plains.Get().(*plain)
	defer plains.Put(p)
	p.charges[0] = *charge
	err = domain.Check(now, p.charges[:], l.home)
	if err != nil {
		return false, err
	}
	p.request.At, p.request.Now, p.request.Look = now, algo.InstantOf(now), look
	p.lines[0].Limit, p.lines[0].Want, p.results[0] = charge.Limit, charge.Cost, algo.Result{}
	if look {
		p.charges[0].Cost = 0
	}
	p.Answer(l.store.Take(ctx, p.request.Now, charge.Subject, p.charges[:], p.results[:]))
	if p.Err != nil {
		return false, nil
	}
	d.Allowed, d.At, d.Evicted = p.Verdict == chain.Admitted, now, l.evicted()
	d.report(&p.ask, 0, charge.Limit, p.results[0], 0)
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if p.results[0].Clamped && p.charges[0].Cost > 0 {
		d.Clamped = 1
	}
	if !p.Decided(0) {
		l.log.supersededBy(ctx, p.request.Now, charge.Limit, p.results[0].Machine)
	}
	return true, nil
}
