package resilient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Store is a remote store behind a circuit breaker. Create it with New, or with the New of a store's package. It
// is safe for concurrent use.
type Store struct {
	inner redialing
	usual time.Duration
	deadlines
	circuit  *gobreaker.TwoStepCircuitBreaker[any]
	failures uint32                        // in a row that open the circuit
	answers  atomic.Int64                  // number of calls that the store answered
	halfOpen bool                          // the circuit is half-open; its lock guards this field
	probed   atomic.Pointer[chan struct{}] // closed when the probe of the store has ended; nil before the first one
	background
	connections debitConnections
}

var (
	_ limiter.Store  = (*Store)(nil)
	_ limiter.Remote = (*Store)(nil)
)

func newStore(inner limiter.Store, o Options) *Store {
	b := &Store{inner: redialing{inner}, usual: o.Timeout, background: background{enabled: o.Background}, failures: Failures,
		deadlines: deadlines{reconnect: ReconnectTimeout, first: FirstTimeout}}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Timeout:      Pause,
		MaxRequests:  1, // one probe at a time
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= b.failures },
		IsSuccessful: limiter.Answered,
		IsExcluded: func(err error) bool { // the circuit calls it under its lock
			excluded := errors.Is(err, errOthersAnswered)
			if excluded && b.halfOpen { // only the probe ends in this state; the next call is another probe
				close(*b.probed.Swap(new(make(chan struct{}))))
			}
			return excluded
		},
		OnStateChange: func(_ string, from, to gobreaker.State) { // under the lock, too
			b.halfOpen = to == gobreaker.StateHalfOpen
			if from == gobreaker.StateHalfOpen {
				close(*b.probed.Load())
			}
			if to == gobreaker.StateHalfOpen {
				b.probed.Store(new(make(chan struct{})))
			}
			b.change(to)
		},
	})
	return b
}

// Take implements limiter.Store.
func (b *Store) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge,
	results []algo.Result) (taken bool, err error) {
	if b.opened.Load() != nil && b.waits() && ctx.Err() == nil && b.circuit.State() == gobreaker.StateHalfOpen {
		b.lookBeside(ctx, now, subject, charges)
		return false, errOpen
	}
	c, err := b.begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = c.end(err, limiter.Answered(err)) }()
	err = errPanic
	taken, err = b.inner.Take(ctx, now, subject, charges, results)
	b.observe(now, err)
	return taken, err
}

// Settle implements limiter.Store. It does not probe the store itself, because it makes no call if there is nothing to
// refund, so its success does not show that the store works. After a pause of the breaker, it first looks at the
// subject.
func (b *Store) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (settled limiter.Settled, err error) {
	for b.circuit.State() == gobreaker.StateHalfOpen && !b.look(ctx, now, subject, charges) {
	}
	c, err := b.begin(ctx)
	if err != nil {
		return settled, err
	}
	defer func() { err = c.end(err, false) }() // a refund can succeed without a call, so its success is no answer
	err = errPanic
	settled, err = b.inner.Settle(ctx, now, subject, charges, results, elapsed)
	return settled, err
}

// look probes the store by a look at the limits of the charges. If another call is the probe, look waits until it ends, and
// returns false.
func (b *Store) look(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge) (done bool) {
	probed := *b.probed.Load()
	c, err := b.begin(ctx)
	switch {
	case errors.Is(err, limiter.ErrBreakerOpen):
		select {
		case <-probed:
		case <-ctx.Done():
		}
		return false
	case err != nil:
		return true
	}
	defer func() { _ = c.end(err, limiter.Answered(err)) }()
	looks := looksOf(charges)
	err = errPanic
	_, err = b.inner.Take(ctx, now, subject, looks, make([]algo.Result, len(looks)))
	b.observe(now, err)
	return true
}

// looksOf returns the charges with a cost of 0.
func looksOf(charges []limiter.Charge) []limiter.Charge {
	looks := slices.Clone(charges)
	for i := range looks {
		looks[i].Cost, looks[i].Force = 0, false
	}
	return looks
}

// Inspect implements limiter.Store. It bypasses the breaker.
func (b *Store) Inspect(ctx context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	return b.inner.Inspect(ctx, subject)
}

// Reset implements limiter.Store. It bypasses the breaker.
func (b *Store) Reset(ctx context.Context, subject limiter.Subject) error {
	return b.inner.Reset(ctx, subject)
}

// Timeout implements limiter.Remote.
func (b *Store) Timeout() time.Duration { return b.usual }

// Unwrap returns the wrapped store.
func (b *Store) Unwrap() limiter.Store { return b.inner.Store }

// Close closes the wrapped store, if it is an io.Closer.
func (b *Store) Close() error {
	if s, ok := b.inner.Store.(io.Closer); ok {
		return s.Close()
	}
	return nil
}

var errOpen = fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrBreakerOpen)

// errPanic is the error of a call until the store returns, so that a panic counts as a failure.
var errPanic = errors.New("panic of the store")

// errOthersAnswered marks the timeout of a call during which the store answered other calls. The breaker ignores such
// a timeout: many calls for one item may have waited for each other.
var errOthersAnswered = errors.New("other calls were answered meanwhile")

// call is a call of the store that the circuit permits.
type call struct {
	of      *Store
	done    func(error)
	answers int64 // Store.answers at the start of the call
}

// begin asks the circuit for a call. If it returns no error, end MUST follow.
func (b *Store) begin(ctx context.Context) (call, error) {
	if err := ctx.Err(); err != nil { // no call is made, so the breaker does not count it
		return call{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	done, err := b.circuit.Allow()
	if err != nil {
		return call{}, errOpen
	}
	return call{b, done, b.answers.Load()}, nil
}

// end records the error of the call, and returns it. answered reports whether the store answered.
func (c call) end(err error, answered bool) error {
	switch {
	case answered:
		c.of.answers.Add(1)
	case limiter.TimedOut(err) && c.of.answers.Load() != c.answers:
		err = fmt.Errorf("%w: %w", err, errOthersAnswered)
	}
	c.done(err)
	return err
}
