package limiter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// If other requests have used a bucket since the charge, a store does not refund the part that leaks in
// refundMargin. Therefore, it is possible that a charge that leaks out of its bucket within that time
// cannot be refunded.
const refundMargin = 2 * time.Second

// wave is the order in which a request charges its subjects.
type wave int

const (
	refundableWave wave = iota // the charge can be refunded
	callerWave                 // the charge cannot be refunded; the limit counts one caller
	sharedWave                 // the charge cannot be refunded; the limit counts all callers
)

// wave returns the wave in which b is charged.
func (b *batch) wave() wave {
	w := refundableWave
	for i := range b.items {
		it := &b.items[i]
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

// hasRoom reports whether the limits of b had at least an eighth of their capacity left when this
// process last saw their states.
func (b *batch) hasRoom(now algo.Instant) bool {
	for i := range b.items {
		m := b.results[i].Machine
		if m == nil || b.items[i].sharded || 8*m.Remaining(b.results[i].State, now) < max(m.Capacity(), 8*b.items[i].want) {
			return false
		}
	}
	return true
}

// charge charges all batches. First it charges the batches on stores of this process, one after the
// other, until one refuses. Then it charges the batches on the shared store, all at the same time.
func (r *request) charge(ctx context.Context) {
	l := r.limiter
	if len(r.batches) > 1 || l.shares() && l.fallback.Holds(r.now) {
		r.chargedAt = time.Now() // a refund needs the monotonic clock
	}
	var last *batch // the last batch on the shared store
	remote := 0
	for i := range r.batches {
		b := &r.batches[i]
		switch {
		case b.refused || b.skipped || b.err != nil:
		case b.remote:
			last = b
			remote++
		default:
			if r.take(ctx, b); b.refused && !b.shadow() {
				return
			}
		}
	}
	if remote == 0 {
		return
	}
	ctx = r.deadline(ctx)
	began := time.Now()
	if remote == 1 {
		r.take(ctx, last)
	} else {
		r.takeRemote(ctx)
	}
	r.storeTime += time.Since(began)
}

// takeRemote charges the subjects of a shared store. A subject whose charge cannot be refunded waits
// until the other subjects have admitted the request. Without this order, a flood of refused requests
// would drain a fast bucket that many callers share. A request on such a bucket takes two round trips,
// rarely three, but no more calls. It takes one round trip if this process knows that the other limits
// have room.
func (r *request) takeRemote(ctx context.Context) {
	for w := refundableWave; w <= sharedWave && !r.refused(); w++ {
		for w < sharedWave && (r.look || r.hasRoom(w)) {
			w++
		}
		r.takeAll(ctx, func(b *batch) bool {
			return b.wave() <= w && !b.taken && !b.refused && !b.skipped && b.err == nil && b.calls == 0
		})
		r.probe(ctx)
	}
}

// hasRoom reports whether all subjects of the waves up to w have room.
func (r *request) hasRoom(w wave) bool {
	return !slices.ContainsFunc(r.batches, func(b batch) bool { return b.remote && !b.taken && b.wave() <= w && !b.hasRoom(r.now) })
}

// probe repeats the calls that a breaker rejected, if another call of the request has shown that the
// store is back. After an outage, the breaker permits only one call of a request. Without probe, on_error
// would decide the first request after the outage.
func (r *request) probe(ctx context.Context) {
	if !r.refused() && slices.ContainsFunc(r.batches, func(b batch) bool { return b.calls > 0 && Answered(b.err) }) {
		r.takeAll(ctx, func(b *batch) bool { return errors.Is(b.err, ErrBreakerOpen) })
	}
}

// takeAll charges batches of a shared store at the same time. It charges only the batches b for which
// the call which(b) returns true.
func (r *request) takeAll(ctx context.Context, which func(*batch) bool) {
	var wg sync.WaitGroup
	for i := range r.batches {
		if b := &r.batches[i]; b.remote && which(b) {
			wg.Go(func() { r.take(ctx, b) })
		}
	}
	wg.Wait()
}
