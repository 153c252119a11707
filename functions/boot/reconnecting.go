package boot

import (
	"context"
	"errors"
	"io"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// reconnecting is a store whose Take is tried once more if the connection that it used was
// an old one and turns out to be dead. If the server had the charge already, it is made twice,
// which admits fewer. A refund is not tried again: given back twice, it would admit more. The second
// call may open a connection, and so last until timeout after the first began.
type reconnecting struct {
	limiter.Store
	timeout time.Duration
}

// Take implements limiter.Store.
func (r reconnecting) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	begun, line := time.Now(), new(line)
	traced := line.trace(ctx)
	allowed, err := r.Store.Take(traced, now, subject, charges, results)
	if err != nil && ctx.Err() == nil && line.dead(err) {
		ctx, cancel := r.longer(ctx, begun)
		defer cancel()
		return r.Store.Take(ctx, now, subject, charges, results)
	}
	return allowed, err
}

// longer returns ctx with a deadline no earlier than timeout after begun.
func (r reconnecting) longer(ctx context.Context, begun time.Time) (context.Context, context.CancelFunc) {
	end := begun.Add(r.timeout)
	if deadline, ok := ctx.Deadline(); !ok || !deadline.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// ClockSkew implements limiter.SkewEstimator.
func (r reconnecting) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	return limiter.ClockSkew(r.Store)
}

// line is what is known of the connection that a call used last. The zero value is an old
// one, as far as is known.
type line struct {
	http     atomic.Bool // the connection is traced
	fresh    atomic.Bool
	answered atomic.Bool // the first byte of the answer has come
}

type lineKey struct{}

// trace returns a context by which the connection makes itself known: those of HTTP by
// httptrace, those of Redis by opened.
func (l *line) trace(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, lineKey{}, l)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			l.http.Store(true)
			l.fresh.Store(!c.Reused)
			l.answered.Store(false)
		},
		GotFirstResponseByte: func() { l.answered.Store(true) },
	})
}

// opened tells who makes a call that it has got a new connection.
func opened(ctx context.Context) {
	if l, ok := ctx.Value(lineKey{}).(*line); ok {
		l.fresh.Store(true)
	}
}

// dead reports whether err is that an old connection had died before it was used.
func (l *line) dead(err error) bool {
	switch {
	case l.fresh.Load() || l.answered.Load():
		return false
	case l.http.Load(): // net/http names some of these errors by text alone
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
