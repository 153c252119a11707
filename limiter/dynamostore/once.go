package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// attemptAttribute is the attribute of a settlement's ID. Its value is the ticket of the attempt that wrote it last;
// the ticket is negative if the settlement is done.
const attemptAttribute = "s"

// longestAttempt bounds the time after which an attempt counts as ended. If its context has a later deadline, or none,
// and the attempt is still running then, a forced charge can be made twice.
const longestAttempt = 10 * time.Second

// endTimeout bounds the update that ends an attempt. The attempt's own deadline may have passed. The sum of that
// deadline and endTimeout is before the instant at which another attempt takes the ID over (algo.MaxSkew later).
const endTimeout = 250 * time.Millisecond

// attempt is one try to make a settlement that has an ID. It writes its ticket into the item of the ID.
type attempt struct {
	store *Store
	key   string // key of the item of the ID
	// ticket is the instant at which the attempt ends, in ns. The last ms is random, so that no two attempts have the
	// same ticket. The ticket is negative if the attempt declares the settlement done before it corrects anything.
	ticket int64
	before int64 // ticket of the attempt that this one takes over; 0 if it is the first
}

// onceKey returns the key of the item that holds the ID of a settlement. No subject has this key, because the name of
// a subject has no space.
func (s *Store) onceKey(subject limiter.Subject, once limiter.Once) string {
	return subject.Key(s.o.Namespace) + " " + once.ID.String()
}

// begin declares a settlement begun, or done if it has no forced charge. It returns an error if the settlement is
// done, or if another attempt may still be running.
func (s *Store) begin(ctx context.Context, now algo.Instant, subject limiter.Subject, once limiter.Once, forces bool) (*attempt, error) {
	if err := once.Expired(now); err != nil {
		return nil, err
	}
	ends := now.Add(longestAttempt)
	if deadline, ok := ctx.Deadline(); ok && algo.InstantOf(deadline) >= now {
		ends = min(ends, algo.InstantOf(deadline))
	}
	a := &attempt{store: s, key: s.onceKey(subject, once), ticket: int64(ends) + rand.Int64N(int64(time.Millisecond))} //nolint:gosec // the number only distinguishes attempts
	if !forces {
		a.ticket = -a.ticket
	}
	for range beginAttempts {
		e := newExpression()
		e.setTo(TTLAttribute, e.number(expiry(once.Expires, 0)))
		it, applied, err := a.write(ctx, e, a.before, a.ticket)
		if err != nil || applied {
			return a, err
		}
		r := reader{it: it}
		seen := r.number(attemptAttribute)
		switch {
		case r.err != nil:
			return nil, r.err
		case seen == a.ticket: // the client sent the update twice
			return a, nil
		case seen < 0:
			return nil, limiter.ErrVoucherUsed
		case int64(now.Add(-algo.MaxSkew)) <= seen:
			return nil, fmt.Errorf("%w: it may run until %s", limiter.ErrVoucherBegun, algo.Instant(seen).Time().UTC().Format(time.RFC3339Nano))
		}
		a.before = seen
	}
	return nil, fmt.Errorf("%w: settlement begun by others in %d attempts", limiter.ErrContended, beginAttempts)
}

// beginAttempts bounds the attempts of begin: the second one takes an ID over.
const beginAttempts = 3

// write replaces the ticket from by the ticket to; 0 means no ticket.
func (a *attempt) write(ctx context.Context, e *expression, from, to int64) (item, bool, error) {
	if from == 0 {
		e.require(e.absent(attemptAttribute))
	} else {
		e.require(e.compare(attemptAttribute, "=", e.number(from)))
	}
	if to == 0 {
		e.remove = append(e.remove, e.name(attemptAttribute))
	} else {
		e.setTo(attemptAttribute, e.number(to))
	}
	return a.store.update(ctx, a.key, e)
}

// end writes the ticket that the ID has after this attempt. settled is the error of the corrections.
//
//   - If the corrections were made, the settlement is done.
//   - If they were certainly not made, the ID is as before, so that a repetition of the settlement can make them.
//   - If they may have been made, the ID stays begun. A repetition makes only the forced charges again.
//
// If the update fails, a repetition charges too much, never too little. So end only logs the error.
func (a *attempt) end(ctx context.Context, now algo.Instant, settled error, applied bool) {
	next := -a.ticket
	switch {
	case settled != nil && applied, settled == nil && a.ticket < 0:
		return
	case settled != nil:
		next = a.before
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if _, _, err := a.write(ctx, newExpression(), a.ticket, next); err != nil {
		a.store.warn(ctx, now, "end of a settlement not recorded; a repetition can charge it again", err)
	}
}

// remaining returns the charges that an attempt makes. An attempt that takes an ID over repeats only corrections that
// cannot create quota: forced charges, and releases of slots, which have no effect the second time.
func (a *attempt) remaining(charges []limiter.Charge, results []algo.Result) []limiter.Charge {
	if a.before == 0 {
		return charges
	}
	charges = slices.Clone(charges)
	for i := range charges {
		if !algo.TakesSlots(results[i].Machine) && !charges[i].Force {
			charges[i].Cost = 0
		}
	}
	return charges
}

// unapplied reports whether err proves that DynamoDB did not apply an update.
func unapplied(err error) bool {
	return errors.Is(err, limiter.ErrThrottled) || errors.Is(err, limiter.ErrItemThrottled) || errors.Is(err, limiter.ErrRejected)
}

// warn logs an error that no decision returns, at most one a minute.
func (s *Store) warn(ctx context.Context, now algo.Instant, message string, err error) {
	last := s.warned.Load()
	if age := now.Sub(algo.Instant(last)).Abs(); age >= time.Minute && s.warned.CompareAndSwap(last, int64(now)) {
		s.o.Logger.LogAttrs(ctx, slog.LevelWarn, message, slog.Any("err", err))
	}
}
