package limiter

import (
	"context"
	"time"
)

// decide makes a decision in seven phases.
//
//  1. Check: the charges are valid (charge.go). A single plain charge on a Local store needs no
//     other phase (simple.go).
//  2. Serve: leases and counters of this process decide what they can (serve.go). Only a counter
//     whose synchronization is due calls the store.
//  3. Arrange: the other charges form parts. A part has all charges on one subject: it is one
//     atomic step of a store (part.go).
//  4. Recall: the denial cache knows states that refuse, and so does the fallback if an outage
//     still counts (recall.go).
//  5. Charge: stores of this process take their parts first, one after another. Then the shared
//     store takes the others at the same time, in up to three waves (stores.go, waves.go). Requests
//     of this process on one subject share a call (group.go).
//  6. Fall back: the strictest OnError of the limits whose store failed decides (outage.go).
//  7. Settle: accounts get the leases that the request renewed. If the request is denied, the
//     other parts are refunded, forced charges excepted (settle.go).
//
// The answer reports one limit for all: the longest wait of those that refuse, or the least
// remaining, global limits left out (answer.go). A request that is denied in phase 2 or 4 makes no
// store call, unless phase 2 synchronized a counter.
func (l *Limiter) decide(ctx context.Context, r *request, now time.Time, charges []Charge) (Decision, error) {
	if err := l.check(now, charges); err != nil {
		return Decision{}, err
	}
	if l.simple(r, charges) {
		return l.decideSimple(ctx, r, now, charges), nil
	}
	r.begin(l, now, charges)
	defer r.end()

	r.serve(ctx)
	if !r.denied() {
		if err := r.arrange(); err != nil {
			r.returnLeases(true)
			return Decision{}, err
		}
		r.recall()
	}
	recalled := r.denied()
	if !recalled {
		r.charge(ctx)
		r.fallBack()
	}
	r.settle(ctx)
	return r.answer(ctx, charges, recalled), nil
}
