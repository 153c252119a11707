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

// trusted is the age up to which Debit trusts a connection. The client may close it soon after.
const trusted = RegionConnectionLife * 5 / 6

// Debit implements limiter.Shares, if the wrapped store does. Like Credit, it is never repeated. If a connection may have to
// be opened, Debit opens it by a look at the limit, and makes the debit only if as much time is left. Otherwise the store
// could make a debit that its caller no longer waits for.
func (b *Store) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64, seen *algo.Result) (moved int64, err error) {
	shares, err := b.shares()
	if err != nil {
		return 0, err
	}
	if b.untrusted(now) {
		if err := b.connect(ctx, now, subject, limit, seen); err != nil {
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
	return moved, err
}

// untrusted reports whether a connection may have to be opened.
func (b *Store) untrusted(now algo.Instant) bool {
	last := b.last.Load()
	return b.timeout(now) > 0 && (last == 0 || b.failing.Load() || now.Sub(algo.Instant(last)).Abs() >= trusted)
}

// connect opens a connection to the store, and sets seen to the state that it finds. It returns an error unless the rest of
// the time of ctx is as long as that took.
func (b *Store) connect(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, seen *algo.Result) error {
	began := time.Now()
	results := []algo.Result{*seen}
	_, err := b.Take(ctx, now, subject, []limiter.Charge{{Subject: subject, Limit: limit}}, results)
	if err != nil {
		return fmt.Errorf("%w: %w", limiter.ErrNotSent, err)
	}
	*seen = results[0]
	took := time.Since(began)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < took {
		return fmt.Errorf("%w: %w: the connection took %s", limiter.ErrUnavailable, limiter.ErrNotSent, took)
	}
	return nil
}

// Credit implements limiter.Shares, if the wrapped store does. It is not repeated on another connection, because a second
// credit would create quota.
func (b *Store) Credit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, moved int64) (r algo.Result, credited bool, err error) {
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
