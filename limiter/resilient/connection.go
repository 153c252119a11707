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

// redialing repeats a Take once if its connection is not new and is dead. The second call may have to open a
// connection, so it has more time: its deadline is the duration timeout after the start of the first call.
type redialing struct {
	limiter.Store
	timeout time.Duration
}

// Take implements limiter.Store.
func (r redialing) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	begun, used := time.Now(), new(connection)
	taken, err := r.Store.Take(used.trace(ctx), now, subject, charges, results)
	if err != nil && ctx.Err() == nil && used.dead(err) {
		ctx, cancel := extend(ctx, begun.Add(r.timeout))
		defer cancel()
		return r.Store.Take(ctx, now, subject, charges, results)
	}
	return taken, err
}

// extend returns ctx with a deadline that is not before the time end.
func extend(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); !ok || !deadline.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// connection describes the last connection that a call used. The zero value is a connection that was used
// before.
type connection struct {
	http     atomic.Bool // httptrace observes the connection
	fresh    atomic.Bool // the call itself opened the connection
	answered atomic.Bool // the first byte of the answer has arrived
}

type connectionKey struct{}

// trace returns a context by which httptrace and Opened record the connection in c.
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

// Opened records that the call with ctx opened a new connection. A dialer that does not use net/http MUST
// call it. Then the call is not repeated if that connection fails. With another context, Opened does
// nothing.
func Opened(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.fresh.Store(true)
	}
}

// dead reports whether err means that an old connection was dead before the call.
func (c *connection) dead(err error) bool {
	switch {
	case c.fresh.Load() || c.answered.Load():
		return false
	// Package net/http identifies some errors of dead connections only by their text, so every error
	// counts here.
	case c.http.Load():
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// ConnectionLife is how long an idle connection counts as usable. Clients of a store SHOULD close idle
// connections after this time. Lambda freezes a process between two events. If the server closes a
// connection meanwhile, the process notices this only at the next request.
const ConnectionLife = 5 * time.Second

// rare is the minimum time between a failed call and a call that gets time to connect. An earlier call
// does not get this time, because the client opens a connection in the background.
const rare = time.Second

// deadlines decides how long a decision may wait for a store whose connections may be gone.
type deadlines struct {
	reconnect, first time.Duration

	begun   atomic.Bool  // a decision has called ConnectTimeout at least once
	last    atomic.Int64 // instant of the last call that began after the field begun was set; 0 if none
	failing atomic.Bool  // the last call had no answer
}

// ConnectTimeout implements limiter.Remote. A client closes the connection of a failed call, so the next call may have to
// connect.
func (d *deadlines) ConnectTimeout(now algo.Instant) time.Duration {
	last := d.last.Load()
	if last == 0 {
		d.begun.Store(true)
		return d.first
	}
	switch pause := now.Sub(algo.Instant(last)).Abs(); {
	case pause >= ConnectionLife, pause >= rare && d.failing.Load():
		return d.reconnect
	}
	return 0
}

// observe records the result of a call at the instant now. It ignores calls before the first decision: they
// only open connections in advance.
func (d *deadlines) observe(now algo.Instant, err error) {
	if !d.begun.Load() {
		return
	}
	d.failing.Store(!limiter.Answered(err))
	d.last.Store(int64(now))
}
