package resilient

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

var _ limiter.Shares = (*Store)(nil)

// RegionConnectionLife is how long a client of the store of another region SHOULD keep an idle connection. It is longer than
// ConnectionLife, because Debit first looks whether an old connection works.
const RegionConnectionLife = time.Minute

// Debit implements limiter.Shares, if the wrapped store does. Like Credit, it is never repeated. If its connection may have to
// be opened, Debit opens it by a look at the limit, and makes the debit only if as much time is left. Otherwise the store
// could make a debit that its caller no longer waits for.
func (b *Store) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (moved int64, err error) {
	shares, err := b.shares()
	if err != nil {
		return 0, err
	}
	conn := b.connections.enter()
	defer b.connections.leave()
	if !b.connections.open(conn, now) {
		if err := b.connect(ctx, now, conn, subject, limit, seen); err != nil {
			return 0, err
		}
	}
	c, err := b.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = c.end(err, limiter.Answered(err)) }()
	err = errPanic
	moved, err = shares.Debit(ctx, now, subject, limit, index, lack, seen)
	b.observe(now, err)
	b.connections.used(conn, now, err)
	return moved, err
}

// connect waits until a look over conn has an answer, and sets seen to the state that its own look finds. It returns an error
// unless the rest of the time of ctx is as long as the look took. The look goes on after ctx ends: a client closes the
// connection of a call that ends early, so a connection that takes longer than ctx would never be open.
func (b *Store) connect(ctx context.Context, now algo.Instant, conn *debitConnection, subject limiter.Subject, limit *limiter.Limit,
	seen *algo.Result) error {
	o, own := b.connections.look(conn)
	if own {
		go b.lookOver(context.WithoutCancel(ctx), now, conn, o, []limiter.Charge{{Subject: subject, Limit: limit}}, *seen)
	}
	if time.Since(o.began) < b.first { // an older look hangs, or ended while the process was frozen
		select {
		case <-o.ended:
		case <-ctx.Done():
		}
	}
	select {
	case <-o.ended:
	default:
		return fmt.Errorf("%w: %w: the connection is not open yet", limiter.ErrUnavailable, limiter.ErrNotSent)
	}
	if o.err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrNotSent, o.err)
	}
	if own {
		*seen = o.found
	}
	took := time.Since(o.began)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < took {
		return fmt.Errorf("%w: %w: the connection took %s", limiter.ErrUnavailable, limiter.ErrNotSent, took)
	}
	return nil
}

// lookOver looks at the limit of the charge. If the store panics, the look has failed.
func (b *Store) lookOver(ctx context.Context, now algo.Instant, conn *debitConnection, o *opening, charges []limiter.Charge,
	hint algo.Result) {
	results := []algo.Result{hint}
	defer func() {
		if recover() != nil {
			o.err = errPanic
		}
		o.found = results[0]
		b.connections.ended(conn, now, o)
	}()
	ctx, cancel := context.WithTimeout(ctx, ConnectionLife)
	defer cancel()
	_, o.err = b.Take(ctx, now, charges[0].Subject, charges, results)
}

// Credit implements limiter.Shares, if the wrapped store does. It is not repeated on another connection, because a second
// credit would create quota.
func (b *Store) Credit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index,
	moved int64) (r algo.Result, credited bool, err error) {
	shares, err := b.shares()
	if err != nil {
		return r, false, err
	}
	c, err := b.begin(ctx)
	if err != nil {
		return r, false, err
	}
	defer func() { err = c.end(err, limiter.Answered(err)) }()
	err = errPanic
	r, credited, err = shares.Credit(ctx, now, subject, limit, index, moved)
	b.observe(now, err)
	return r, credited, err
}

func (b *Store) shares() (limiter.Shares, error) {
	if s, ok := limiter.SharesOf(b.inner.Store); ok {
		return s, nil
	}
	return nil, fmt.Errorf("%w: a %T cannot move share between regions", limiter.ErrRejected, b.inner.Store)
}
