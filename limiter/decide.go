package limiter

import (
	"context"
	"time"
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
	err = l.decidePooled(ctx, now, charges, false, &d)
	return d, err
}

// Peek returns what Take would decide, and charges nothing. Leased quota counts as charged. For a limit
// with shards, Peek reads one shard. For a limit with Spread.Sync, it uses the count of this process
// without a synchronization.
func (l *Limiter) Peek(ctx context.Context, now time.Time, charges []Charge) (d Decision, err error) {
	err = l.decidePooled(ctx, now, charges, true, &d)
	return d, err
}

func (l *Limiter) decidePooled(ctx context.Context, now time.Time, charges []Charge, look bool, d *Decision) error {
	r := requests.Get().(*request)
	defer requests.Put(r)
	r.reset()
	r.look = look
	return l.decide(ctx, r, now, charges, d)
}

// decide makes a decision, and sets d to it, in seven phases. If only limits with Mark refuse a subject in phase 4 or 5, the phase decides
// the subject again without them.
//
//  1. Check: the charges are valid (charge.go).
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
func (l *Limiter) decide(ctx context.Context, r *request, now time.Time, charges []Charge, d *Decision) error {
	if err := check(now, charges, l.home); err != nil {
		return err
	}
	r.begin(l, now, charges)
	defer r.cleanUp()

	r.serve(ctx)
	if !r.denied() {
		if err := r.arrange(); err != nil {
			r.returnLeases(true)
			return err
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
	r.finish(ctx)
	r.answer(ctx, early, d)
	return nil
}
