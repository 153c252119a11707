package resilient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// redialing repeats a Take once if its connection was idle and is dead. The second call may have to open a
// connection, so it has more time: its deadline is ReconnectTimeout after the start of the first call.
type redialing struct{ limiter.Store }

// Take implements limiter.Store.
func (r redialing) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (bool, error) {
	begun, used := time.Now(), new(connection)
	taken, err := r.Store.Take(used.trace(ctx), now, subject, charges, results)
	if err != nil && ctx.Err() == nil && used.dead(err) {
		ctx, cancel := extend(ctx, begun.Add(ReconnectTimeout))
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

// idle is how long a connection has been without an answer if its failure means that it was dead before the call. After a
// shorter time, the server probably received the call, and lost its answer.
const idle = time.Second

// connection describes the last connection of net/http that a call used. The zero value is another connection.
type connection struct {
	idle     atomic.Bool
	answered atomic.Bool // the first byte of the answer has arrived
}

// trace returns a context by which net/http records the connection in c.
func (c *connection) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			c.idle.Store(got.Reused && got.IdleTime > idle)
			c.answered.Store(false)
		},
		GotFirstResponseByte: func() { c.answered.Store(true) },
	})
}

// dead reports whether err means that an idle connection was dead before the call. Package net/http identifies some errors
// of dead connections only by their text, so every error counts there.
func (c *connection) dead(err error) bool {
	_, watched := errors.AsType[*idleError](err)
	return watched || c.idle.Load() && !c.answered.Load()
}

// idleError is an error of a connection that was idle before the request, and failed before an answer.
type idleError struct{ error }

func (e *idleError) Unwrap() error { return e.error }

// watched is a connection of Watch. Its fields have the instants of the monotonic clock.
type watched struct {
	net.Conn
	last    time.Time // last answer
	waiting bool      // a request has no answer yet
	idle    bool      // the connection was idle before this request
}

// Watch returns a connection that lets a resilient Store repeat a charge on it if it was idle before. A dialer of a client
// that does not use net/http SHOULD return such connections. A request and its answer MUST NOT be concurrent to others.
func Watch(c net.Conn) net.Conn {
	w := &watched{Conn: c, last: time.Now()}
	if s, ok := c.(syscall.Conn); ok { // store clients look there whether the server has closed the connection, before each request
		if raw, err := s.SyscallConn(); err == nil {
			return struct {
				*watched
				connected
			}{w, connected{raw}}
		}
	}
	return w
}

// connected is a syscall.Conn.
type connected struct{ raw syscall.RawConn }

// SyscallConn implements syscall.Conn.
func (c connected) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Write implements net.Conn.
func (w *watched) Write(b []byte) (int, error) {
	if !w.waiting {
		w.waiting, w.idle = true, time.Since(w.last) > idle
	}
	n, err := w.Conn.Write(b)
	return n, w.explain(err)
}

// Read implements net.Conn.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.waiting, w.idle, w.last = false, false, time.Now()
	}
	return n, w.explain(err)
}

func (w *watched) explain(err error) error {
	if w.idle && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)) {
		return &idleError{err}
	}
	return err
}

// ConnectionLife is how long an idle connection counts as usable. Store clients SHOULD close idle
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
