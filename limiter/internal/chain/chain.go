// Package chain has what the layers of a Limiter pass to each other. Each layer is one mechanism, and knows only the Layer
// below it.
//
// A layer keeps these rules, so that each request that is admitted is charged, in every order of the layers:
//
//  1. It admits only what the layer below charged: now, or earlier as a spare that nobody else uses. Package counters and
//     package outage state how far they exceed this.
//  2. It refuses without a call only with a state or a wait that refuses, and then it holds nothing of the request.
//  3. It makes all charges or none. If it takes back an admission, it settles it below.
//  4. Every layer may lower a spare, and a layer may take a spare that nobody asked for. A spare that no layer keeps only
//     refuses too early.
//  5. It passes on the corrections that it does not own.
//  6. Take does not depend on an earlier Know.
//  7. What outlives the rules, and what the store said last, is in package table and package health, never in a layer.
package chain

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/health"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Layer is a mechanism, with the layers below it. It MUST be safe for concurrent use.
type Layer interface {
	// Know reports whether this process knows that a is refused, and sets a.Verdict then. It fills a.Results with the
	// states that it knows. It charges nothing and never waits.
	Know(a *Ask) (refuses bool)
	// Take makes all charges of a, or none, and sets a.Verdict and the states.
	Take(a *Ask)
	// Settle makes the corrections of c, and marks each that it made as done.
	Settle(c *Correction)
}

// Below is the layer below a layer. If the layer embeds it, it passes on what it does not implement.
type Below = Layer

// Process is what all layers of a process use. None of it is a part of a request.
type Process struct {
	Health   *health.Health
	Cache    *table.Cache
	Trackers *table.Trackers
	Clock    domain.Clock           // times pauses
	Together domain.ConcurrentClock // runs concurrent calls; nil for goroutines
	IntN     func(n int) int        // returns a random number below n
	Log      func(ctx context.Context, now algo.Instant, err error)
}

// Request is what all asks of one request share. Make the deadline with Deadline before asks run at the same time.
type Request struct {
	At       time.Time // with the monotonic reading of the caller, if there is one
	Now      algo.Instant
	Look     bool // the request charges nothing
	Timeouts *Timeouts

	values   context.Context //nolint:containedctx // a request has one deadline, which begins with its first call
	deadline context.Context //nolint:containedctx // nil until a call needs it
	cancel   context.CancelFunc
}

// NewRequest returns a request with the values of ctx.
func NewRequest(ctx context.Context, at time.Time, look bool, t *Timeouts) Request {
	return Request{At: at, Now: algo.InstantOf(at), Look: look, Timeouts: t, values: ctx}
}

// Context returns the context of the caller, with its cancellation.
func (r *Request) Context() context.Context { return r.values }

// Deadline returns a context with the deadline of the request. It ignores that the caller leaves. The timeout begins at
// the first call of Deadline, which is when the request first waits for a remote store.
func (r *Request) Deadline() context.Context {
	if r.deadline == nil {
		r.deadline = r.values
		if timeout := r.Timeouts.At(r.Now); timeout > 0 {
			r.deadline, r.cancel = context.WithTimeout(context.WithoutCancel(r.values), timeout)
		}
	}
	return r.deadline
}

// Within returns a request at the instant now, with the deadline of ctx.
func (r *Request) Within(ctx context.Context, now algo.Instant) *Request {
	return &Request{Now: now, Timeouts: r.Timeouts, values: r.values, deadline: ctx}
}

// Again returns the same request with a deadline of its own, which has not begun. The caller MUST call End.
func (r *Request) Again() *Request {
	next := NewRequest(r.values, r.At, r.Look, r.Timeouts)
	return &next
}

// Restart ends the deadline. The next one begins with the next call. No ask of the request may run meanwhile.
func (r *Request) Restart() {
	r.End()
	*r = *r.Again()
}

// End ends the deadline.
func (r *Request) End() {
	if r.cancel != nil {
		r.cancel()
	}
}

// Timeouts bound how long a request or a settlement waits for a store.
type Timeouts struct {
	Usual  time.Duration
	Remote domain.Remote // nil if the store has no other timeouts
}

// At returns the timeout of a request at the instant now. 0 means without a bound.
func (t *Timeouts) At(now algo.Instant) time.Duration {
	if t.Usual == 0 || t.Remote == nil {
		return t.Usual
	}
	return max(t.Usual, t.Remote.ConnectTimeout(now))
}
