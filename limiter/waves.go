package limiter

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// charge charges all parts: first those of stores in this process, one after the other until one
// refuses, then those of a shared store at the same time.
func (r *request) charge(ctx context.Context) {
	l := r.limiter
	if len(r.parts) > 1 || l.shares() && l.fallback.Holds(r.now) {
		r.begun = time.Now() // for its monotonic reading
	}
	var last *part // of a shared store
	remote := 0
	for i := range r.parts {
		p := &r.parts[i]
		switch {
		case p.refused || p.skipped || p.err != nil:
		case p.remote:
			last = p
			remote++
		default:
			if r.take(ctx, p); p.refused && !p.shadow() {
				return
			}
		}
	}
	if remote == 0 {
		return
	}
	ctx = r.deadline(ctx)
	asked := time.Now()
	if remote == 1 {
		r.take(ctx, last)
	} else {
		r.takeRemote(ctx)
	}
	r.stored += time.Since(asked)
}

// takeRemote charges the subjects of a shared store. Subjects whose charge cannot be refunded wait
// until the others have passed. Otherwise a refused flood would drain a fast bucket that many
// callers share. A request on such a bucket takes a second round trip, and rarely a third, unless
// this environment saw room in the other limits. It never makes an additional call.
func (r *request) takeRemote(ctx context.Context) {
	for w := refundableWave; w <= sharedWave && !r.refused(); w++ {
		for w < sharedWave && (r.look || r.roomy(w)) {
			w++
		}
		r.takeAll(ctx, func(p *part) bool {
			return p.wave() <= w && !p.taken && !p.refused && !p.skipped && p.err == nil && p.calls == 0
		})
		r.probe(ctx)
	}
}

// roomy reports whether all subjects that are taken in a wave up to w are.
func (r *request) roomy(w wave) bool {
	return !slices.ContainsFunc(r.parts, func(p part) bool { return p.remote && !p.taken && p.wave() <= w && !p.roomy(r.now) })
}

// probe charges the subjects that a breaker rejected, after one call has shown that the store is
// back. A breaker lets only one of several calls through. With probe, the first request after an
// outage is served normally.
func (r *request) probe(ctx context.Context) {
	if !r.refused() && slices.ContainsFunc(r.parts, func(p part) bool { return p.calls > 0 && Answered(p.err) }) {
		r.takeAll(ctx, func(p *part) bool { return errors.Is(p.err, ErrBreakerOpen) })
	}
}

// takeAll charges some of the parts of a shared store, all at the same time.
func (r *request) takeAll(ctx context.Context, which func(*part) bool) {
	var wg sync.WaitGroup
	for i := range r.parts {
		if p := &r.parts[i]; p.remote && which(p) {
			wg.Go(func() { r.take(ctx, p) })
		}
	}
	wg.Wait()
}
