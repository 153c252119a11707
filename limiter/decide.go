package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
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
// with shards, Peek reads one shard, and a second one if the first refuses. For a limit with Spread.Sync, it
// uses the count of this process without a synchronization.
func (l *Limiter) Peek(ctx context.Context, now time.Time, charges []Charge) (d Decision, err error) {
	err = l.decidePooled(ctx, now, charges, true, &d)
	return d, err
}

// combiners is a pool of combiners that are reused, with their memory.
var combiners = sync.Pool{New: func() any { return new(combiner) }}

func (l *Limiter) decidePooled(ctx context.Context, now time.Time, charges []Charge, look bool, d *Decision) error {
	if !l.remote && l.isPlain(charges) {
		ok, err := l.takePlain(ctx, now, &charges[0], look, d)
		if ok || err != nil {
			return err
		}
	}
	c := combiners.Get().(*combiner)
	defer combiners.Put(c)
	defer c.reset()
	return l.decide(ctx, c, now, charges, look, d)
}

// decide makes a decision, and sets d to it.
//
//  1. The charges on each subject become an ask, which a store takes in one atomic step.
//  2. If there are several asks, each says what this process knows without a call. If one is refused, the request is.
//  3. The asks are taken: by a store of this process one after another, by a remote store in up to four waves. If only
//     limits with Mark refuse, their ask is taken again without them.
//  4. If the request is denied, the admitted asks are corrected to the cost 0, except for forced charges.
//
// The answer reports one limit (answer.go).
func (l *Limiter) decide(ctx context.Context, c *combiner, now time.Time, charges []Charge, look bool, d *Decision) error {
	if err := domain.Check(now, charges, l.home); err != nil {
		return err
	}
	c.limiter = l
	c.Request = chain.NewRequest(ctx, now, look, &l.timeouts)
	l.health.Active.Add(1)
	defer l.health.Active.Add(-1)
	defer c.End()
	if err := c.arrange(charges); err != nil {
		return err
	}
	known := len(c.asks) > 1 && c.known()
	switch {
	case known:
	case len(c.asks) == 1:
		a := &c.asks[0]
		a.layer.Take(&a.Ask) // the call of most requests has few functions on the stack
		c.storeTime, a.StoreTime = a.StoreTime, 0
		if !l.remote {
			a.fallBack()
		}
	default:
		c.take()
	}
	for !known && c.any((*ask).refuses) && c.leaveOutMarks() {
		c.take()
	}
	if len(c.asks) > 1 || c.notify {
		c.finish(ctx)
	}
	c.answer(ctx, d)
	return nil
}
