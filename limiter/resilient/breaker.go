package resilient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The defaults of Options.
const (
	DefaultFailures = 5
	DefaultPause    = 500 * time.Millisecond
)

// Options of New. The zero value is ready for use.
type Options struct {
	// Failures is how many calls in a row have to fail until the store is not asked any
	// more; 0 means DefaultFailures.
	Failures int
	// Pause is how long the store is not asked then, until it is tried again; 0 means
	// DefaultPause.
	Pause time.Duration
}

// New returns store behind a circuit breaker, which is safe for concurrent use. A Local
// store cannot be down, and is returned as it is. Inspect and Reset, which operators call,
// always ask. An option out of range is an error that names it.
func New(store limiter.Store, o Options) (limiter.Store, error) {
	switch {
	case store == nil:
		return nil, errors.New("breaker: store: got nil, want a Store")
	case o.Failures < 0:
		return nil, fmt.Errorf("breaker: %w", &algo.FieldError{Field: "Options.Failures", Got: o.Failures, Want: fmt.Sprintf("at least 1; 0 means %d", DefaultFailures)})
	case o.Pause < 0:
		return nil, fmt.Errorf("breaker: %w", &algo.FieldError{Field: "Options.Pause", Got: o.Pause, Want: fmt.Sprintf("more than 0; 0 means %s", DefaultPause)})
	}
	if _, ok := store.(limiter.Local); ok {
		return store, nil
	}
	o.Failures, o.Pause = cmp.Or(o.Failures, DefaultFailures), cmp.Or(o.Pause, DefaultPause)
	b := &guarded{Store: store, circuit: gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Timeout:      o.Pause,
		MaxRequests:  1, // at once, while it is not known whether the store is back
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(o.Failures) },
		IsSuccessful: limiter.Answered,
		IsExcluded:   func(err error) bool { return errors.Is(err, errPressed) },
	})}
	b.calls.New = func() any {
		c := &call{store: store, answers: &b.answers}
		c.run = c.ask
		return c
	}
	return b, nil
}

// guarded is a store behind a breaker.
type guarded struct {
	limiter.Store
	circuit *gobreaker.CircuitBreaker[int]
	calls   sync.Pool
	answers atomic.Int64 // calls that the store answered
}

// call is one call of the store, reused so that it costs no allocation.
type call struct {
	store   limiter.Store
	answers *atomic.Int64
	run     func() (int, error) // ask
	refund  bool
	ctx     context.Context
	now     algo.Instant
	elapsed time.Duration
	subject limiter.Subject
	charges []limiter.Charge
	results []algo.Result
}

// errPressed marks a timeout while the store answered other calls. It says nothing of the store:
// many calls for one item wait for each other.
var errPressed = errors.New("others were answered meanwhile")

// ask calls the store, and notes whether it lives.
func (c *call) ask() (int, error) {
	begun := c.answers.Load()
	n, err := c.askOnce()
	switch {
	case limiter.Answered(err) && !c.refund: // which may have asked nobody
		c.answers.Add(1)
	case limiter.TimedOut(err) && c.answers.Load() != begun:
		return n, fmt.Errorf("%w: %w", err, errPressed)
	}
	return n, err
}

// askOnce returns what the store gave back, or 1 if it took the charges.
func (c *call) askOnce() (int, error) {
	if c.refund {
		return c.store.Refund(c.ctx, c.subject, c.charges, c.results, c.elapsed)
	}
	taken, err := c.store.Take(c.ctx, c.now, c.subject, c.charges, c.results)
	if taken {
		return 1, err
	}
	return 0, err
}

// Take implements limiter.Store.
func (g *guarded) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	taken, err := g.execute(call{ctx: ctx, now: now, subject: subject, charges: charges, results: results})
	return taken == 1, err
}

// Refund implements limiter.Store. It is no probe: one that has nothing to give back asks
// nobody, and would be taken for an answer.
func (g *guarded) Refund(ctx context.Context, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration) (given int, err error) {
	if g.circuit.State() != gobreaker.StateClosed {
		return 0, errOpen
	}
	return g.execute(call{refund: true, ctx: ctx, elapsed: elapsed, subject: subject, charges: charges, results: results})
}

// ClockSkew implements limiter.SkewEstimator.
func (g *guarded) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	return limiter.ClockSkew(g.Store)
}

var errOpen = fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrBreakerOpen)

func (g *guarded) execute(what call) (int, error) {
	if err := what.ctx.Err(); err != nil { // too late to learn anything of the store
		return 0, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	c := g.calls.Get().(*call)
	what.store, what.answers, what.run = c.store, c.answers, c.run
	*c = what
	n, err := g.circuit.Execute(c.run)
	*c = call{store: c.store, answers: c.answers, run: c.run} // keep nothing of the request
	g.calls.Put(c)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return 0, errOpen
	}
	return n, err
}
