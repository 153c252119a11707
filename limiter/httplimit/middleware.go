package httplimit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Middleware limits the requests to an http.Handler. It is for hosts without an
// authorizer that can answer 429: an HTTP API, a function URL, a load balancer, a
// server of your own. Set the required fields and do not change them afterwards; it
// is then safe for concurrent use.
type Middleware struct {
	// Limiter decides. Required.
	Limiter *limiter.Limiter
	// Charges returns what a request that came at now is to be charged; Live.Charges of
	// package rules fits. Required.
	Charges func(ctx context.Context, now time.Time, method string, path rules.Path, caller caller.Caller) []limiter.Charge
	// Identify returns who sent the request at now. With an error the Caller is still
	// charged, and then answered 401, or 503 if the error wraps caller.ErrUnverified.
	// Required.
	Identify func(r *http.Request, now time.Time) (caller.Caller, error)
	// MaxDelay is how long a request waits at most for its turn in the queue of a leaky
	// bucket; give the rules the same, so that queues are no deeper. 0: nobody waits, and
	// leaky buckets are meters. A request whose context ends has lost its turn.
	MaxDelay time.Duration
	// Observe, if not nil, is told of each request what was decided, before it is answered
	// or goes on: when it came, how long the decision took, who sent it, and the decision.
	// With an error, which is Identify's or the Limiter's, the decision was not enforced. A
	// refusal has none, nor has a decision that failed: they come before what Identify says.
	Observe func(now time.Time, took time.Duration, caller caller.Caller, d limiter.Decision, err error)
	// Clock is read once per request; nil means Limiter.Now.
	Clock func() time.Time
	// Logger gets what goes wrong besides the store, one line of a message a second; nil
	// means slog.Default().
	Logger *slog.Logger
}

// Wrap returns next behind the limits. next gets requests with the path that was charged:
// decoded, without a slash at the end, and RawPath empty. So a ServeMux runs no pattern that
// other rules are for; register "/files" beside "/files/". Wrap panics if a required field is
// missing: better at the start than at the first request.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	switch {
	case m.Limiter == nil:
		panic("httplimit: Middleware.Limiter is nil")
	case m.Charges == nil:
		panic("httplimit: Middleware.Charges is nil")
	case m.Identify == nil:
		panic("httplimit: Middleware.Identify is nil")
	}
	clock, logger := m.Clock, m.Logger
	if clock == nil {
		clock = m.Limiter.Now
	}
	if logger == nil {
		logger = slog.Default()
	}
	logger = slog.New(telemetry.Sparing(logger.Handler())) // anybody can send bad credentials
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, begun := clock(), time.Now()
		c, failed := m.Identify(r, now)
		path := rules.URLPath(r.URL)
		charges := m.Charges(r.Context(), now, r.Method, path, c)
		decision, err := m.Limiter.Take(r.Context(), now, charges)
		if !decision.Allowed { // that comes before what Identify says
			failed = err
		}
		if m.Observe != nil {
			m.Observe(now, time.Since(begun), c, decision, failed)
		}
		if err != nil {
			logger.LogAttrs(r.Context(), slog.LevelError, "rules cannot be applied", slog.Any("err", err))
			write(w, http.StatusInternalServerError, "internal_error", "The limits of this request could not be applied.")
			return
		}
		answer := NewAnswer(decision)
		if !decision.Allowed {
			answer.Refuse(w)
			return
		}
		if failed != nil && answer.Degraded != "" { // it is not told what the limits say, but this
			w.Header().Set(DegradedField, answer.Degraded)
		}
		switch {
		case errors.Is(failed, caller.ErrUnverified):
			logger.LogAttrs(r.Context(), slog.LevelError, "caller not verified", slog.Any("err", failed))
			w.Header().Set(RetryAfterField, "1")
			write(w, http.StatusServiceUnavailable, "authorizer_failed", "The request could not be authorized. Try again.")
		case failed != nil:
			logger.LogAttrs(r.Context(), slog.LevelInfo, "credential refused", slog.Any("err", failed))
			w.Header().Set("WWW-Authenticate", "Bearer")
			write(w, http.StatusUnauthorized, "unauthorized", "The credentials are missing, malformed, unknown or expired.")
		default:
			answer.SetHeader(w.Header())
			if !wait(r.Context(), min(decision.Delay, m.MaxDelay)) {
				write(w, http.StatusServiceUnavailable, "queue_left", "The request ended before its turn came.")
				return
			}
			next.ServeHTTP(w, routed(r, path))
		}
	})
}

// wait reports whether ctx lives as long as the delay.
func wait(ctx context.Context, delay time.Duration) bool {
	if delay <= 0 {
		return true
	}
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// write writes a problem that is no refusal.
func write(w http.ResponseWriter, status int, code, message string) {
	p := Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Error: code, Message: message}
	p.write(w)
}
