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

// takeOnce charges one part once.
func (r *request) takeOnce(ctx context.Context, p *part) {
	switch {
	case !p.remote:
		p.taken, p.err = p.store.Take(ctx, r.now, p.charges[0].Subject, p.charges, p.results)
	case p.forces():
		r.takeShared(ctx, p)
	default:
		r.takeGrouped(ctx, p)
	}
	p.refused = !p.taken && p.err == nil
	if r.look && p.err == nil {
		p.taken, p.refused = false, p.refuser(r.now) != nil
	}
}

// takeGrouped charges the shared store. If a call for the subject is in flight, p waits and shares the
// next call with other requests.
func (r *request) takeGrouped(ctx context.Context, p *part) {
	l := r.limiter
	w := l.groups.Enter(ctx, r.now, p.subject(), r.look, func() []group.Charge[*Limit] { return p.groupCharges(r.look) })
	if w != nil {
		p.wait(l.shared, w)
		return
	}
	p.err = ErrUnavailable // if the store panics
	defer func() {
		if l.groups.Leave(p.subject(), p.known) {
			p.err = l.crowded(p.err)
		}
	}()
	r.takeShared(ctx, p)
}

// groupCharges returns the charges of p for a group.
func (p *part) groupCharges(look bool) []group.Charge[*Limit] {
	charges := make([]group.Charge[*Limit], len(p.charges))
	for i, c := range p.charges {
		charges[i] = group.Charge[*Limit]{Limit: c.Limit.groupLimit(), Target: c.Limit, Want: p.items[i].want, Cost: c.Cost}
		if look {
			charges[i].Want = 0
		}
	}
	return charges
}

// known returns the states that the call of p returned; none if it failed.
func (p *part) known() (known []group.Known) {
	if p.err != nil {
		return nil
	}
	for i, c := range p.charges {
		known = append(known, group.Known{Limit: c.Limit.groupLimit(), Result: p.results[i]})
	}
	return known
}

// wait waits for the outcome of p as part of a group.
func (p *part) wait(s *shared, w *group.Waiter[*Limit]) {
	answer := w.Wait()
	p.taken, p.err = answer.Taken, answer.Err
	p.calls += answer.Calls
	for i, cost := range answer.Costs {
		p.charges[i].Cost = cost
	}
	copy(p.results, answer.Results)
	switch {
	case errors.Is(p.err, group.ErrDeadline):
		p.err = s.crowded(fmt.Errorf("%w: %w", ErrUnavailable, p.err))
	case errors.Is(p.err, group.ErrContended):
		p.err = pressure(fmt.Errorf("%w: %w", ErrContended, p.err))
	}
}

// takeShared charges the shared store. It repeats a throttled call.
func (r *request) takeShared(ctx context.Context, p *part) {
	r.takeLeased(ctx, p)
	switch {
	case errors.Is(p.err, ErrItemThrottled):
		r.takeThrottled(ctx, p)
	case busy(p.err) && !r.look:
		r.limiter.accounts.signal(r.now, p.charges, false)
	}
}

// takeLeased charges the shared store. If the store refuses a lease, takeLeased charges the request
// alone, if there is room for it.
func (r *request) takeLeased(ctx context.Context, p *part) {
	r.call(ctx, p)
	if p.err == nil && !p.taken && p.shrink(r.now) {
		r.call(ctx, p)
	}
	if p.err == nil {
		r.limiter.denials.remember(r.now, p.charges[0].Subject, p.charges, p.results, p.taken)
	}
}

// call calls the shared store once for p, or twice if the store refuses a backdated lease that
// is allowed now.
func (r *request) call(ctx context.Context, p *part) {
	call := func(at algo.Instant) {
		var calls int
		p.taken, calls, p.err = r.limiter.ask(ctx, at, p.charges[0].Subject, p.charges, p.results)
		p.calls += calls
	}
	at, hint := r.chargeAt(p)
	if hint == nil {
		call(r.now)
		return
	}
	seen := slices.Clone(p.results)
	copy(p.results, hint)
	if call(at); p.err != nil {
		copy(p.results, seen)
	} else if !p.taken && p.refuser(r.now) == nil {
		call(r.now)
	}
}

// takeThrottled repeats the throttled call of p.
func (r *request) takeThrottled(ctx context.Context, p *part) {
	l := r.limiter
	if !r.look && !p.shadow() {
		r.leaseFirst(p)
	}
	a := &attempt{now: r.now, charges: p.charges, results: p.results, err: p.err}
	a.take = func() (bool, error) {
		r.takeLeased(ctx, p)
		return p.taken, p.err
	}
	a.refuses = func() bool {
		p.size(r.now)
		return p.refuser(r.now) != nil
	}
	p.taken, p.err = l.outlast(ctx, a)
	if p.calls += a.calls; a.refused {
		p.unlease()
		l.denials.remember(r.now, p.charges[0].Subject, p.charges, p.results, false)
	}
}

// leaseFirst turns the charges of p into leases where the limits have much room.
func (r *request) leaseFirst(p *part) {
	s := r.limiter.accounts
	for i := range p.items {
		it := &p.items[i]
		if it.lease != nil || it.Force || it.want == 0 || !it.limit.leasable() {
			continue
		}
		room := it.limit.machine.Capacity()
		if seen := p.results[i]; seen.Machine != nil {
			room = seen.Remaining(r.now)
		}
		if a, size := s.first(r.now, it.Subject, it.limit, it.want, room); a != nil {
			it.lease, it.size, p.charges[i].Cost = a, size, size
			r.asks = append(r.asks, a)
		}
	}
}

// A bucket's lease is charged as of a random instant, at most one part in backdatePart of the
// bucket's depth ago, and at most maxBackdate.
const (
	backdatePart = 1024
	maxBackdate  = 50 * time.Millisecond
)

// chargeAt returns the instant at which the charges of p are made. It is now, or a little earlier
// for leases of a bucket that may be more than half full. DynamoDB needs a second write for an idle
// bucket, and a bucket that many environments charge is idle half of the time. At a slightly
// earlier instant the bucket is busy, so nearly every charge takes one write. hint then holds the
// state that the store is expected to have. The lag admits at most one part in backdatePart of the
// burst too many.
func (r *request) chargeAt(p *part) (at algo.Instant, hint []algo.Result) {
	lag := maxBackdate
	for i := range p.items {
		bucket, ok := p.charges[i].Limit.machine.(*algo.Bucket)
		if !ok || p.items[i].lease == nil || p.items[i].limit.Spread.Lease > 0 {
			return r.now, nil
		}
		if seen := p.results[i]; seen.Machine != nil && 2*seen.Remaining(r.now) < seen.Machine.Capacity() {
			return r.now, nil
		}
		hint = append(hint, algo.Result{Machine: bucket, State: algo.State{TAT: r.now}})
		lag = min(lag, bucket.Depth/backdatePart)
	}
	return r.now.Add(-time.Duration(r.limiter.intN(int(lag)))), hint
}
