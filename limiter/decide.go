package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Take decides one request at the time now. It makes all charges or none. The charges on one subject are one
// atomic step of the store. Several subjects are charged at the same time. If one of them refuses, the charges
// on the others are refunded, as far as a refund is safe (Decision.Refunds). Read the clock once per request
// and pass that instant.
//
// Take keeps the values of ctx and ignores its cancellation, because the request of a client that disconnects
// still counts. An error wraps ErrInvalidCharge and reports a mistake in a charge. Failures of the store are in
// the Decision.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []Charge) (d Decision, err error) {
	if l.local != nil && len(charges) == 1 && l.decideCompact(&d, now, &charges[0]) {
		return d, nil
	}
	return l.decidePooled(ctx, now, charges, false)
}

// Peek returns what Take would decide, and charges nothing. Leased quota counts as charged. For a limit
// with shards, Peek reads one shard. For a limit with Spread.Sync, it uses the count of this process
// without a synchronization.
func (l *Limiter) Peek(ctx context.Context, now time.Time, charges []Charge) (Decision, error) {
	return l.decidePooled(ctx, now, charges, true)
}

func (l *Limiter) decidePooled(ctx context.Context, now time.Time, charges []Charge, look bool) (Decision, error) {
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.look = look
	return l.decide(ctx, r, now, charges)
}

// decide makes a decision in seven phases. If only limits with Mark refuse a subject in phase 4 or 5, the phase decides
// the subject again without them.
//
//  1. Check: the charges are valid (charge.go). One charge on a store of this process ([Local]) usually
//     needs no other phase: decideSingle decides it. Take calls decideCompact before, which decides it if
//     the store holds a compact state of the subject.
//  2. Serve: leases and counters of this process, which trackers hold, decide what they can
//     (serve.go). The store is called only if the synchronization of a counter is due.
//  3. Arrange: the other charges form batches. A batch has all charges on one subject, which a store
//     takes in one atomic step (request.go).
//  4. Look up: the denial cache may know a state that refuses. After an outage, the fallback can
//     also refuse (lookup.go).
//     If only limits that regions share refuse, the request asks the other regions for share (transfer.go). After
//     the next phase, it asks them too, once for each limit.
//  5. Call the stores: stores of this process take their batches first, one after another. Then the
//     shared store takes the others in up to three waves (calls.go). Calls of one wave are concurrent.
//     Requests of this process on one subject share a call (group.go).
//  6. Fall back: the strictest OnError of the limits whose store failed decides. Limits with OnErrorLocal
//     are counted in this process then (outage.go).
//  7. Finish: trackers get the leases that the request renewed. If the request is denied, the
//     other batches are refunded, except for forced charges. Notices of limits with Notify are written
//     (finish.go).
//
// The answer reports one limit (answer.go). If limits refuse, it reports the limit with the longest wait, which
// can be a global limit. If the request is allowed, it reports the limit that admits the fewest further
// requests of the same cost, but never a global limit. A request that is denied in phase 2 or 4 makes no store
// call, unless phase 2 synchronized a counter.
func (l *Limiter) decide(ctx context.Context, r *request, now time.Time, charges []Charge) (Decision, error) {
	if err := check(now, charges, l.home); err != nil {
		return Decision{}, err
	}
	if !l.sharesStore() && len(charges) == 1 && charges[0].Limit.plain && !r.look && !r.receipt {
		return l.decideSingle(ctx, r, now, charges), nil
	}
	r.begin(l, now, charges)
	defer r.cleanUp()

	r.serve(ctx)
	if !r.denied() {
		if err := r.arrange(); err != nil {
			r.returnLeases(true)
			return Decision{}, err
		}
		r.lookUp()
	}
	early := r.denied() && !r.transfer(ctx) && (!r.shared || !r.leaveOutMarks())
	if !early {
		r.callStores(ctx)
		for r.refused() && (r.transfer(ctx) || r.leaveOutMarks()) {
			r.callStores(ctx)
		}
		r.fallBack()
	}
	r.finish(ctx, early)
	return r.answer(ctx, early), nil
}

// decideCompact decides a request with one charge on a Local store, if the store holds a compact state for
// that charge. Most requests on a Local store are of this kind, and the phases of decide would take most
// of their time. decideCompact fills d and returns true, or changes nothing and returns false.
func (l *Limiter) decideCompact(d *Decision, at time.Time, c *Charge) bool {
	limit := c.Limit
	if limit == nil || limit.compacter == nil || c.Force || c.Subject == (Subject{}) || !decidable(at) {
		return false
	}
	now := algo.InstantOf(at)
	state, allowed, known := l.local.TakeCompact(now, c.Subject, limit, c.Cost)
	if !known {
		return false
	}
	a := limit.compacter.Answer(state, now, c.Cost, allowed)
	d.Allowed, d.At = allowed, at
	switch {
	case !allowed:
		d.RetryAfter = a.Wait
	case limit.Rate.Algorithm.Queues():
		d.Delay = a.Wait
	}
	if allowed && limit.Global {
		return true
	}
	d.Limit, d.Cost = limit, c.Cost
	d.Capacity, d.Remaining, d.ResetAfter = a.Capacity, a.Remaining, a.ResetAfter
	return true
}

// decideSingle decides a request with one charge on a Local store. For such a request the phases
// of decide would take most of the time.
func (l *Limiter) decideSingle(ctx context.Context, r *request, at time.Time, charges []Charge) Decision {
	now, it := algo.InstantOf(at), task{Charge: charges[0], original: charges[0].Limit, want: charges[0].Cost}
	// The slices belong to the pooled request. New slices would be allocated for each request, because they are
	// arguments of an interface method.
	r.charges, r.results = append(r.charges[:0], charges[0]), append(r.results[:0], algo.Result{})
	allowed, err := l.store.Take(ctx, now, it.Subject, r.charges, r.results)
	d := Decision{Allowed: allowed, At: at}
	if err != nil {
		switch d.Reason = reasonOf(err); {
		case d.Reason == ReasonBusy:
			d.RetryAfter = l.busyWait()
		case it.original.OnError == OnErrorAllow:
			d.Allowed = true
		default: // a Local store has no fallback
			d.Failed, d.LocalFull = true, it.original.OnError == OnErrorLocal
		}
		l.log.failure(ctx, now, err)
		return d
	}
	d.Clamped = clamped(r.charges, r.results)
	if d.report(&it, r.results[0], now); d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Superseded {
		l.log.supersededBy(ctx, now, it.original, r.results[0].Machine)
	}
	return d
}
