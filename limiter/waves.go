package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// refundMargin is the part of a refund that a store keeps if others have used the bucket since the
// charge. A bucket whose charge leaks away within that time gets no refund.
const refundMargin = 2 * time.Second

// wave is when a subject is taken, of a request on several.
type wave int

const (
	refundableWave wave = iota // its charge can be refunded
	callerWave                 // gets nothing back, of one caller
	sharedWave                 // gets nothing back, of all callers
)

// wave returns that of p.
func (p *part) wave() wave {
	w := refundableWave
	for i := range p.items {
		it := &p.items[i]
		bucket, ok := it.Limit.machine.(*algo.Bucket)
		switch {
		case !ok || it.Force || it.lease == nil && bucket.Increment(min(it.Cost, bucket.Burst)) > refundMargin:
		case it.limit.Global:
			return sharedWave
		default:
			w = callerWave
		}
	}
	return w
}

// roomy reports whether the limits of p had at least an eighth of their capacity left when this
// environment saw them last.
func (p *part) roomy(now algo.Instant) bool {
	for i := range p.items {
		m := p.results[i].Machine
		if m == nil || p.items[i].sharded || 8*m.Remaining(p.results[i].State, now) < max(m.Capacity(), 8*p.items[i].want) {
			return false
		}
	}
	return true
}

// takeRemote charges the subjects of a shared store. Subjects whose charge cannot be refunded wait
// until the others have passed. Otherwise a refused flood would drain a fast bucket that many
// callers share. A request on such a bucket takes a second round trip, and rarely a third, unless
// this environment saw room in the other limits. It never makes an additional call.
func (l *Limiter) takeRemote(ctx context.Context, r *request) {
	for w := refundableWave; w <= sharedWave && !r.refused(); w++ {
		for w < sharedWave && (r.look || r.roomy(w)) {
			w++
		}
		r.takeAll(ctx, func(p *part) bool {
			return p.wave() <= w && !p.taken && !p.refused && !p.skipped && p.err == nil && p.calls == 0
		})
		l.probe(ctx, r)
	}
}

// roomy reports whether all subjects that are taken in a wave up to w are.
func (r *request) roomy(w wave) bool {
	return !slices.ContainsFunc(r.parts, func(p part) bool { return p.remote && !p.taken && p.wave() <= w && !p.roomy(r.now) })
}

// probe charges the subjects that a breaker rejected, after one call has shown that the store is
// back. A breaker lets only one of several calls through. With probe, the first request after an
// outage is served normally.
func (l *Limiter) probe(ctx context.Context, r *request) {
	if !r.refused() && slices.ContainsFunc(r.parts, func(p part) bool { return p.calls > 0 && Answered(p.err) }) {
		r.takeAll(ctx, func(p *part) bool { return errors.Is(p.err, ErrBreakerOpen) })
	}
}
