package resilient

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

// redialing repeats a Take once if its connection had been used before and turns out to be dead.
// The second call may open a connection, so it may last until timeout after the first began.
type redialing struct {
	limiter.Store
	timeout time.Duration
}

// Take implements limiter.Store.
func (r redialing) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	begun, used := time.Now(), new(connection)
	taken, err := r.Store.Take(used.trace(ctx), now, subject, charges, results)
	if err != nil && ctx.Err() == nil && used.dead(err) {
		ctx, cancel := extend(ctx, begun.Add(r.timeout))
		defer cancel()
		return r.Store.Take(ctx, now, subject, charges, results)
	}
	return taken, err
}

// extend returns ctx with a deadline no earlier than end.
func extend(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); !ok || !deadline.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// connection is what is known of the connection that a call used last. The zero value is one
// that had been used before.
type connection struct {
	http     atomic.Bool // httptrace observes it
	fresh    atomic.Bool
	answered atomic.Bool // the first byte of the answer has arrived
}

type connectionKey struct{}

// trace returns a context by which c observes the connection: with httptrace, or with Opened.
func (c *connection) trace(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, connectionKey{}, c)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			c.http.Store(true)
			c.fresh.Store(!got.Reused)
			c.answered.Store(false)
		},
		GotFirstResponseByte: func() { c.answered.Store(true) },
	})
}

// Opened reports that the call with this context opened a new connection. A dialer that does not
// use net/http calls it, so that the call is not repeated if that connection fails. With any
// other context it does nothing.
func Opened(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.fresh.Store(true)
	}
}

// dead reports whether err means that an old connection was dead before it was used.
func (c *connection) dead(err error) bool {
	switch {
	case c.fresh.Load() || c.answered.Load():
		return false
	case c.http.Load(): // net/http identifies some of these errors only by their text
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
