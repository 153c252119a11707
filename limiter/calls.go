package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// callStores charges all batches. A store of this process charges one batch after the other, until a batch is
// refused. A shared store charges them at the same time.
func (r *request) callStores(ctx context.Context) {
	l := r.limiter
	if r.chargedAt.IsZero() && (len(r.batches) > 1 || l.sharesStore() && l.fallback.Holds(r.now) && r.hasMirror()) {
		r.chargedAt = time.Now() // a refund needs the monotonic clock reading
		r.settled = l.settled.Load()
	}
	var last *batch // the last batch on the shared store
	remote := 0
	for i := range r.batches {
		b := &r.batches[i]
		switch {
		case b.refused || b.skipped || b.err != nil || b.taken || b.calls > 0:
		case b.remote:
			last = b
			remote++
		default:
			r.callBatch(ctx, b)
			if b.refused && !b.shadow() {
				return
			}
		}
	}
	if remote == 0 {
		return
	}
	ctx = r.deadline(ctx)
	began := time.Now()
	switch {
	case remote > 1:
		r.callInWaves(ctx)
	case last.tasks[0].sharded:
		r.callBatch(ctx, last)
	default: // the call of most requests has few functions on the stack
		r.callSubject(ctx, last)
		r.judge(last)
	}
	r.storeTime += time.Since(began)
}

// callInWaves charges the subjects of a shared store. A subject whose charge cannot be refunded waits until the other
// subjects have admitted the request. Otherwise a flood of refused requests would drain a fast bucket that many
// callers share.
//
// A request on such a bucket takes two round trips, rarely three, but no more calls. It takes one round trip if this
// process knows that the other limits have room.
func (r *request) callInWaves(ctx context.Context) {
	for w := refundableWave; w <= sharedWave && !r.refused(); w++ {
		for w < sharedWave && (r.look || r.hasRoom(w)) {
			w++
		}
		r.callConcurrently(ctx, func(b *batch) bool {
			return b.wave() <= w && !b.taken && !b.refused && !b.skipped && b.err == nil && b.calls == 0
		})
		r.probe(ctx)
	}
}

// hasRoom reports whether all subjects of the waves up to w have room.
func (r *request) hasRoom(w wave) bool {
	return !slices.ContainsFunc(r.batches, func(b batch) bool {
		return b.remote && !b.taken && !b.skipped && b.wave() <= w &&
			!b.hasRoom(r.now)
	})
}

// probe repeats the calls that a breaker rejected, if another call of the request has shown that the store works
// again. After an outage, the breaker permits only one call of a request. Without probe, on_error would decide the
// request.
func (r *request) probe(ctx context.Context) {
	if !r.refused() && slices.ContainsFunc(r.batches, func(b batch) bool { return b.calls > 0 && Answered(b.err) }) {
		r.callConcurrently(ctx, func(b *batch) bool { return errors.Is(b.err, ErrBreakerOpen) })
	}
}

// callConcurrently charges the batches of a shared store at the same time. It charges only the batches for which
// includes returns true.
func (r *request) callConcurrently(ctx context.Context, includes func(*batch) bool) {
	p := &r.parallel
	for i := range r.batches {
		if b := &r.batches[i]; b.remote && includes(b) {
			p.add(func() { r.callBatch(ctx, b) })
		}
	}
	p.run(r.limiter.concurrentClock())
}

// If other requests have used a bucket since the charge, a store does not refund what leaks in refundMargin. If the
// whole charge leaks in that time, it cannot be refunded.
const refundMargin = 2 * time.Second

// wave is the order in which a request charges its subjects.
type wave int

const (
	refundableWave wave = iota // the charge can be refunded
	callerWave                 // the charge cannot be refunded; the limit counts one caller
	sharedWave                 // the charge cannot be refunded; the limit counts all callers
)

func (b *batch) wave() wave {
	w := refundableWave
	for i := range b.tasks {
		task := &b.tasks[i]
		switch leak := algo.Leak(task.Limit.machine, task.Cost); {
		case leak == algo.Never || task.Force || task.lease == nil && leak > refundMargin:
		case task.original.Global:
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
	for i := range b.tasks {
		m := b.results[i].Machine
		if m == nil || b.tasks[i].sharded || 8*m.Remaining(b.results[i].State, now) < max(m.Capacity(), 8*b.tasks[i].want) {
			return false
		}
	}
	return true
}

// callBatch charges one batch. If the first shard of a limit refuses, callBatch charges a second one.
func (r *request) callBatch(ctx context.Context, b *batch) {
	r.callBatchOnce(ctx, b)
	if !b.refused || !b.remote || !b.tasks[0].sharded {
		return
	}
	first := b.shardRefusal()
	if r.pickShard(b) {
		return
	}
	r.callBatchOnce(ctx, b)
	if b.taken || r.look && !b.refused && b.err == nil {
		return
	}
	b.refused = true // the refusal of the first shard counts, even if the call for the second one failed
	if b.err == nil {
		first = first.shorter(r.now, b)
	}
	for shard := range b.tasks[0].original.parts { // the denial cache may have a shard with a shorter wait
		if r.lookUpShard(b, shard) {
			first = first.shorter(r.now, b)
		}
	}
	b.answer(first)
}

// callBatchOnce charges one batch once. If the limit has shards, the batch charges one shard.
func (r *request) callBatchOnce(ctx context.Context, b *batch) {
	if b.remote {
		r.callSubject(ctx, b)
	} else {
		b.taken, b.err = b.store.Take(ctx, r.now, b.charges[0].Subject, b.charges, b.results)
	}
	r.judge(b)
}

// callSubject charges the shared store. If a call for the subject is in flight, b waits and shares the next call with
// other requests. On an idle subject, all that follows is one call.
func (r *request) callSubject(ctx context.Context, b *batch) {
	l, subject := r.limiter, b.charges[0].Subject
	if !b.alone {
		if w := l.groups.enter(ctx, r.now, subject, r.look, func() []waiterCharge { return b.waiterCharges(r.look) }); w != nil {
			b.wait(l.shared, w)
			return
		}
		b.err = ErrUnavailable // this error stays if the store panics
		defer func() {
			if q := l.groups.leave(subject, b.known); q != nil {
				b.err = l.crowdedError(b.err)
				go l.serve(q)
			}
		}()
	}
	if slices.ContainsFunc(b.tasks, func(stored task) bool { return stored.lease != nil }) {
		r.callLeased(ctx, b)
	} else {
		var calls int
		b.taken, calls, b.err = l.call(ctx, r.now, subject, b.charges, b.results)
		b.calls += calls
		if b.err == nil {
			l.denials.record(r.now, subject, b.charges, b.results, b.taken)
		}
	}
	switch {
	case errors.Is(b.err, ErrItemThrottled):
		r.callThrottled(ctx, b)
	case busy(b.err) && !r.look:
		l.trackers.raisePressure(r.now, b.charges, false)
	}
}

// waiterCharges returns the charges of b for a group of requests.
func (b *batch) waiterCharges(look bool) []waiterCharge {
	charges := make([]waiterCharge, len(b.charges))
	for i, c := range b.charges {
		charges[i] = waiterCharge{limit: c.Limit, want: b.tasks[i].want, cost: c.Cost}
		if look {
			charges[i].want = 0
		}
	}
	return charges
}

// known returns the states that the call of b returned; none if it failed.
func (b *batch) known() (states []known) {
	if b.err != nil {
		return nil
	}
	for i, c := range b.charges {
		states = append(states, known{limit: c.Limit, result: b.results[i]})
	}
	return states
}

// wait waits until a group has decided b.
func (b *batch) wait(s *shared, w *waiter) {
	answer := w.wait()
	if p, ok := errors.AsType[*storePanic](answer.err); ok {
		panic(p)
	}
	b.taken, b.err = answer.taken, answer.err
	b.calls += answer.calls
	if errors.Is(b.err, errNoAnswer) { // w.charges still belong to the group
		b.err = s.crowdedError(b.err)
		return
	}
	for i, c := range w.charges {
		b.charges[i].Cost = c.cost
	}
	copy(b.results, answer.results)
}

// callLeased charges the shared store. If the limit has no room for the lease but has room for the
// request, callLeased charges the request without a lease.
func (r *request) callLeased(ctx context.Context, b *batch) {
	r.callBackdated(ctx, b)
	if b.err == nil && !b.taken && b.shrinkLeases(r.now) {
		r.callBackdated(ctx, b)
	}
	if b.err == nil {
		r.limiter.denials.record(r.now, b.charges[0].Subject, b.charges, b.results, b.taken)
	}
}

// callBackdated calls the shared store once for b, at an instant slightly before the request (chargeAt). If the store
// refuses there, but can allow the charges at the instant of the request, callBackdated makes a second call.
func (r *request) callBackdated(ctx context.Context, b *batch) {
	call := func(at algo.Instant) {
		var calls int
		b.taken, calls, b.err = r.limiter.call(ctx, at, b.charges[0].Subject, b.charges, b.results)
		b.calls += calls
	}
	at, hint := r.chargeAt(b)
	if hint == nil {
		call(r.now)
		return
	}
	seen := slices.Clone(b.results)
	copy(b.results, hint)
	call(at)
	if b.err != nil {
		copy(b.results, seen)
	} else if !b.taken && b.refuser(r.now) == nil {
		call(r.now)
	}
}

func (r *request) callThrottled(ctx context.Context, b *batch) {
	l := r.limiter
	if !r.look && !b.shadow() {
		r.leaseFirst(b)
	}
	c := &throttledCall{now: r.now, charges: b.charges, results: b.results, err: b.err}
	c.repeat = func() (bool, error) {
		r.callLeased(ctx, b)
		return b.taken, b.err
	}
	c.refuses = func() bool {
		b.sizeLeases(r.now)
		return b.refuser(r.now) != nil
	}
	b.taken, b.err = l.retryThrottled(ctx, c)
	b.calls += c.calls
	if c.refused {
		b.giveUpLeases()
		l.denials.record(r.now, b.charges[0].Subject, b.charges, b.results, false)
	}
}
