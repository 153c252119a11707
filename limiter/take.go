package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/group"
)

// takeOnce charges one batch once. If the limit has shards, the batch charges one shard.
func (r *request) takeOnce(ctx context.Context, b *batch) {
	switch {
	case !b.remote:
		b.taken, b.err = b.store.Take(ctx, r.now, b.charges[0].Subject, b.charges, b.results)
	case b.forces() || b.concurrent():
		r.takeShared(ctx, b)
	default:
		r.takeGrouped(ctx, b)
	}
	b.refused = !b.taken && b.err == nil
	if r.look && b.err == nil {
		b.taken, b.refused = false, b.refuser(r.now) != nil
	}
}

// takeGrouped charges the shared store. If a call for the subject is in flight, b waits and shares the
// next call with other requests.
func (r *request) takeGrouped(ctx context.Context, b *batch) {
	l := r.limiter
	w := l.groups.Enter(ctx, r.now, b.charges[0].Subject, r.look, func() []group.Charge[*Limit] { return b.groupCharges(r.look) })
	if w != nil {
		b.wait(l.shared, w)
		return
	}
	b.err = ErrUnavailable // the outcome if the store panics
	defer func() {
		if l.groups.Leave(b.charges[0].Subject, b.groupStates) {
			b.err = l.crowdedError(b.err)
		}
	}()
	r.takeShared(ctx, b)
}

// groupCharges returns the charges of b in the form that a group of requests uses.
func (b *batch) groupCharges(look bool) []group.Charge[*Limit] {
	charges := make([]group.Charge[*Limit], len(b.charges))
	for i, c := range b.charges {
		charges[i] = group.Charge[*Limit]{Limit: c.Limit.groupLimit(), Target: c.Limit, Want: b.items[i].want, Cost: c.Cost}
		if look {
			charges[i].Want = 0
		}
	}
	return charges
}

// groupStates returns the states that the call of b returned; none if it failed.
func (b *batch) groupStates() (known []group.Known) {
	if b.err != nil {
		return nil
	}
	for i, c := range b.charges {
		known = append(known, group.Known{Limit: c.Limit.groupLimit(), Result: b.results[i]})
	}
	return known
}

// wait waits for the outcome of b in a group.
func (b *batch) wait(s *shared, w *group.Waiter[*Limit]) {
	answer := w.Wait()
	b.taken, b.err = answer.Taken, answer.Err
	b.calls += answer.Calls
	for i, cost := range answer.Costs {
		b.charges[i].Cost = cost
	}
	copy(b.results, answer.Results)
	switch {
	case errors.Is(b.err, group.ErrDeadline):
		b.err = s.crowdedError(fmt.Errorf("%w: %w", ErrUnavailable, b.err))
	case errors.Is(b.err, group.ErrContended):
		b.err = asBusy(fmt.Errorf("%w: %w", ErrContended, b.err))
	}
}

// takeShared charges the shared store, and repeats a throttled call.
func (r *request) takeShared(ctx context.Context, b *batch) {
	r.takeLeased(ctx, b)
	switch {
	case errors.Is(b.err, ErrItemThrottled):
		r.takeThrottled(ctx, b)
	case busy(b.err) && !r.look:
		r.limiter.trackers.raisePressure(r.now, b.charges, false)
	}
}

// takeLeased charges the shared store. If the limit has no room for the lease but has room for the
// request, takeLeased charges the request without a lease.
func (r *request) takeLeased(ctx context.Context, b *batch) {
	r.callStore(ctx, b)
	if b.err == nil && !b.taken && b.shrinkLeases(r.now) {
		r.callStore(ctx, b)
	}
	if b.err == nil {
		r.limiter.denials.record(r.now, b.charges[0].Subject, b.charges, b.results, b.taken)
	}
}

// callStore calls the shared store once for b. It makes a second call if the store refuses the charges at
// the earlier instant (chargeAt), but can allow them at the instant of the request.
func (r *request) callStore(ctx context.Context, b *batch) {
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
	if call(at); b.err != nil {
		copy(b.results, seen)
	} else if !b.taken && b.refuser(r.now) == nil {
		call(r.now)
	}
}

// takeThrottled repeats the throttled call of b.
func (r *request) takeThrottled(ctx context.Context, b *batch) {
	l := r.limiter
	if !r.look && !b.shadow() {
		r.leaseFirst(b)
	}
	c := &throttledCall{now: r.now, charges: b.charges, results: b.results, err: b.err}
	c.repeat = func() (bool, error) {
		r.takeLeased(ctx, b)
		return b.taken, b.err
	}
	c.refuses = func() bool {
		b.sizeLeases(r.now)
		return b.refuser(r.now) != nil
	}
	b.taken, b.err = l.retryThrottled(ctx, c)
	if b.calls += c.calls; c.refused {
		b.giveUpLeases()
		l.denials.record(r.now, b.charges[0].Subject, b.charges, b.results, false)
	}
}

// leaseFirst turns charges of b into leases, for limits that have much room.
func (r *request) leaseFirst(b *batch) {
	ts := r.limiter.trackers
	for i := range b.items {
		it := &b.items[i]
		if it.lease != nil || it.Force || it.want == 0 || !it.limit.leasable() {
			continue
		}
		room := it.limit.machine.Capacity()
		if seen := b.results[i]; seen.Machine != nil {
			room = seen.Remaining(r.now)
		}
		if t, size := ts.firstLease(r.now, it.Subject, it.limit, it.want, room); t != nil {
			it.lease, it.leaseSize, b.charges[i].Cost = t, size, size
			r.renewals = append(r.renewals, t)
		}
	}
}

// A bucket's lease is charged at a random instant before the request. The difference is at most
// 1/backdatePart of the bucket's depth, and at most maxBackdate.
const (
	backdatePart = 1024
	maxBackdate  = 50 * time.Millisecond
)

// chargeAt returns the instant at which the charges of b are made, and the state that the store probably
// has then. For a bucket's lease, the instant is slightly earlier than the request, unless more than
// half of the bucket is used. The reason: DynamoDB needs a second write for an idle bucket, and a bucket
// that many environments charge is idle half of the time. At an earlier instant the bucket is not idle,
// so nearly every charge takes one write. Because of the earlier instant, a bucket can exceed its burst
// by at most 1/backdatePart.
func (r *request) chargeAt(b *batch) (at algo.Instant, hint []algo.Result) {
	lag := maxBackdate
	for i := range b.items {
		bucket, ok := b.charges[i].Limit.machine.(*algo.Bucket)
		if !ok || b.items[i].lease == nil || b.items[i].limit.Spread.Lease > 0 {
			return r.now, nil
		}
		if seen := b.results[i]; seen.Machine != nil && 2*seen.Remaining(r.now) < seen.Machine.Capacity() {
			return r.now, nil
		}
		hint = append(hint, algo.Result{Machine: bucket, State: algo.State{TAT: r.now}})
		lag = min(lag, bucket.Depth/backdatePart)
	}
	return r.now.Add(-time.Duration(r.limiter.intN(int(lag)))), hint
}
