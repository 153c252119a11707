package resilient

import (
	"context"
	"fmt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

var _ limiter.Shares = (*Store)(nil)

// Debit implements limiter.Shares, if the wrapped store does. Like Credit, it is never repeated.
func (b *Store) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64) (moved int64, err error) {
	shares, err := b.shares()
	if err != nil {
		return 0, err
	}
	c, err := b.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = c.end(err, limiter.Answered(err)) }()
	err = errPanic
	moved, err = shares.Debit(ctx, now, subject, limit, index, lack)
	b.observe(now, err)
	return moved, err
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
