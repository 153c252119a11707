package resilient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// breaker is a store behind a circuit breaker.
type breaker struct {
	limiter.Store
	deadlines
	circuit *gobreaker.CircuitBreaker[int]
	calls   sync.Pool
	answers atomic.Int64                  // number of calls that the store answered
	probed  atomic.Pointer[chan struct{}] // closed when the last probe of the store has ended; nil before the first one
}

func newBreaker(store limiter.Store, o Options) *breaker {
	b := &breaker{Store: store}
	b.circuit = gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Timeout:      o.Pause,
		MaxRequests:  1, // one probe at a time
		ReadyToTrip:  func(c gobreaker.Counts) bool { return int64(c.ConsecutiveFailures) >= int64(o.Failures) },
		IsSuccessful: limiter.Answered,
		IsExcluded:   func(err error) bool { return errors.Is(err, errOthersAnswered) },
		OnStateChange: func(_ string, from, to gobreaker.State) { // the circuit calls it under its lock
			if from == gobreaker.StateHalfOpen {
				close(*b.probed.Load())
			}
			if to == gobreaker.StateHalfOpen {
				b.probed.Store(new(make(chan struct{})))
			}
		},
	})
	b.reconnect, b.first = o.ReconnectTimeout, o.FirstTimeout
	b.calls.New = func() any {
		c := &call{of: b}
		c.run = c.make
		return c
	}
	return b
}

// Take implements limiter.Store.
func (b *breaker) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	taken, err := b.execute(call{ctx: ctx, now: now, subject: subject, charges: charges, results: results})
	return taken == 1, err
}

// Settle implements limiter.Store. It does not probe the store itself, because it makes no call if there is nothing to
// refund, so its success does not show that the store works. After a pause of the breaker, it first looks at the
// subject.
func (b *breaker) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (settled limiter.Settled, err error) {
	if b.circuit.State() == gobreaker.StateHalfOpen {
		b.look(ctx, now, subject, charges)
	}
	_, err = b.execute(call{settled: &settled, ctx: ctx, now: now, elapsed: elapsed, once: once, subject: subject, charges: charges, results: results})
	return settled, err
}

// look probes the store by a look at the limits of the charges. If another call is the probe, look waits until it ends.
func (b *breaker) look(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge) {
	probed := *b.probed.Load()
	looks := slices.Clone(charges)
	for i := range looks {
		looks[i].Cost, looks[i].Force = 0, false
	}
	if _, err := b.Take(ctx, now, subject, looks, make([]algo.Result, len(looks))); !errors.Is(err, limiter.ErrBreakerOpen) {
		return
	}
	select {
	case <-probed:
	case <-ctx.Done():
	}
}

// ClockSkew implements limiter.SkewEstimator.
func (b *breaker) ClockSkew() (ahead, uncertainty time.Duration, ok bool) {
	return limiter.ClockSkew(b.Store)
}

// ConnectTimeout implements limiter.Connector.
func (b *breaker) ConnectTimeout(now algo.Instant) time.Duration { return b.timeout(now) }

var errOpen = fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrBreakerOpen)

func (b *breaker) execute(what call) (int, error) {
	if err := what.ctx.Err(); err != nil { // no call is made, so the breaker does not count it
		return 0, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	c := b.calls.Get().(*call)
	what.of, what.run = c.of, c.run
	*c = what
	n, err := b.circuit.Execute(c.run)
	*c = call{of: c.of, run: c.run} // clear the values of the request before the call returns to the pool
	b.calls.Put(c)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return 0, errOpen
	}
	return n, err
}

// call is one call of the store. Calls are reused, to avoid an allocation.
type call struct {
	of      *breaker
	run     func() (int, error) // the method value c.make, which is allocated once
	settled *limiter.Settled    // the result of Settle; nil for Take
	ctx     context.Context
	now     algo.Instant
	elapsed time.Duration
	once    limiter.Once
	subject limiter.Subject
	charges []limiter.Charge
	results []algo.Result
}

// errOthersAnswered marks the timeout of a call during which the store answered other calls. The breaker ignores such
// a timeout: many calls for one item may have waited for each other.
var errOthersAnswered = errors.New("other calls were answered meanwhile")

// make calls the store and records whether it answered.
func (c *call) make() (int, error) {
	begun := c.of.answers.Load()
	n, err := c.send()
	switch {
	// A refund can succeed without a call, so its success does not prove that the store answered.
	case limiter.Answered(err) && c.settled == nil:
		c.of.answers.Add(1)
	case limiter.TimedOut(err) && c.of.answers.Load() != begun:
		return n, fmt.Errorf("%w: %w", err, errOthersAnswered)
	}
	return n, err
}

// send calls the store. It returns 1 if the store took the charges.
func (c *call) send() (n int, err error) {
	if c.settled != nil {
		*c.settled, err = c.of.Store.Settle(c.ctx, c.now, c.subject, c.charges, c.results, c.elapsed, c.once)
		return 0, err
	}
	taken, err := c.of.Store.Take(c.ctx, c.now, c.subject, c.charges, c.results)
	c.of.observe(c.now, err)
	if taken {
		return 1, err
	}
	return 0, err
}
