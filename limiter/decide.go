package limiter

import (
	"context"
	"time"
)

// decide makes a decision in seven phases.
//
//  1. Check: the charges are valid (charge.go). A single charge on a Local store needs no other
//     phase (simple.go).
//  2. Serve: leases and counters of this process decide what they can (serve.go). Only a counter
//     whose synchronization is due calls the store.
//  3. Arrange: the other charges form parts. A part has all charges on one subject: it is one
//     atomic step of a store (part.go).
//  4. Recall: the denial cache knows states that refuse, and so does the fallback if an outage
//     still counts (recall.go).
//  5. Charge: the stores take every part, all subjects at the same time. Requests of this process
//     on one subject share a call (stores.go, group.go).
//  6. Fall back: OnError decides for parts whose store failed (outage.go).
//  7. Settle: accounts get the leases that the request renewed. If one part refuses, the others
//     are refunded (settle.go).
//
// The answer reports one limit for all: the longest wait of those that refuse, or the least
// remaining (answer.go). A request that is denied in phase 2 or 4 makes no store call.
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
