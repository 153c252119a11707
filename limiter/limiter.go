package limiter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Options of a Limiter. The zero value is ready for use.
type Options struct {
	// Timeout bounds the store's work for one decision; 0 means DefaultTimeout. It is
	// below MinWindow. Stores in this process are not timed.
	Timeout time.Duration
	// Trust is how long a remembered state may refuse without asking the store; 0
	// means a second, negative not at all. A refund, a reset or a changed limit made
	// elsewhere is noticed after that time at the latest.
	Trust time.Duration
	// Remember is of how many subjects state is remembered; 0 means 10,000.
	Remember int
	// Logger gets one line for each failure of the store; nil means slog.Default().
	Logger *slog.Logger
}

// DefaultTimeout is the time that a store has for a decision.
const DefaultTimeout = 900 * time.Millisecond

// Limiter decides requests against a Store. It is safe for concurrent use. Make one
// per process, or environment, with New.
type Limiter struct {
	store   Store
	timeout time.Duration
	memory  *memory // nil for a Local store
	logger  *slog.Logger
	scratch sync.Pool
}

// New returns a Limiter over store.
func New(store Store, o Options) *Limiter {
	if o.Timeout <= 0 || o.Timeout >= MinWindow {
		o.Timeout = DefaultTimeout
	}
	if o.Trust == 0 {
		o.Trust = time.Second
	}
	if o.Remember <= 0 {
		o.Remember = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	l := &Limiter{store: store, timeout: o.Timeout, logger: o.Logger}
	l.scratch.New = func() any { return new(request) }
	if _, ok := store.(Local); ok {
		l.timeout = 0
	} else {
		l.memory = newMemory(o.Remember, o.Trust)
	}
	return l
}

// Take decides one request at now: it charges all of charges or, as far as that can
// be taken back, none. Charges of one subject are one atomic step of the store,
// several subjects are taken at once. Read the clock once per request, and pass that
// instant.
//
// The values of ctx are kept and its cancellation is not: a caller who hangs up has
// still asked. An error is a mistake in charges and wraps ErrInvalidCharge; the
// store's failures are in the Decision.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []Charge) (Decision, error) {
	r := l.scratch.Get().(*request)
	defer l.scratch.Put(r)
	r.at, r.now = now, algo.InstantOf(now)
	r.arrange(charges)
	for _, p := range r.parts {
		if err := validate(p.charges); err != nil {
			return Decision{}, err
		}
	}
	if l.refusedFromMemory(r) {
		return r.decision(true), nil
	}
	if l.timeout > 0 && len(r.parts) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
		defer cancel()
	}
	if len(r.parts) < 2 {
		for i := range r.parts {
			l.takePart(ctx, r.now, &r.parts[i])
		}
	} else {
		begun := time.Now() // for its monotonic reading
		l.takeParts(ctx, r)
		l.refundRest(ctx, r, begun)
	}
	for i := range r.parts {
		if err := r.parts[i].err; err != nil {
			l.logger.LogAttrs(ctx, slog.LevelError, "store failed", slog.String("reason", string(reasonOf(err))), slog.Any("err", err))
		}
	}
	return r.decision(false), nil
}

// refusedFromMemory looks up every part in memory, and reports whether one is
// refused.
func (l *Limiter) refusedFromMemory(r *request) (refused bool) {
	if l.memory == nil {
		return false
	}
	for i := range r.parts {
		p := &r.parts[i]
		p.refused = l.memory.recall(r.now, p.charges[0].Subject, p.charges, p.results)
		refused = refused || p.refused
	}
	return refused
}

// takeParts takes all subjects at once. A Local store is faster one by one, and
// then nothing is taken after a refusal.
func (l *Limiter) takeParts(ctx context.Context, r *request) {
	if l.memory == nil {
		for i := range r.parts {
			if l.takePart(ctx, r.now, &r.parts[i]); r.parts[i].refused {
				return
			}
		}
		return
	}
	var wg sync.WaitGroup
	for i := range r.parts {
		wg.Go(func() { l.takePart(ctx, r.now, &r.parts[i]) })
	}
	wg.Wait()
}

func (l *Limiter) takePart(ctx context.Context, now algo.Instant, p *part) {
	subject := p.charges[0].Subject
	p.taken, p.err = l.store.Take(ctx, now, subject, p.charges, p.results)
	p.refused = !p.taken && p.err == nil
	if l.memory != nil && p.err == nil {
		l.memory.remember(now, subject, p.charges, p.results)
	}
}

// refundRest gives back what was taken of a request that another subject refused.
// A refund that fails is dropped: that admits fewer, never more.
func (l *Limiter) refundRest(ctx context.Context, r *request, begun time.Time) {
	if !r.refused() || !r.taken() {
		return
	}
	elapsed := time.Since(begun)
	var wg sync.WaitGroup
	for i := range r.parts {
		p := &r.parts[i]
		if !p.taken {
			continue
		}
		wg.Go(func() {
			if err := l.store.Refund(ctx, p.charges[0].Subject, p.charges, p.results, elapsed); err != nil {
				l.logger.LogAttrs(ctx, slog.LevelWarn, "refund dropped", slog.Any("err", err))
			}
		})
	}
	wg.Wait()
}

// reasonOf names the failure of a store.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return ReasonTimeout
	case errors.Is(err, ErrContended):
		return ReasonContended
	case errors.Is(err, ErrFull):
		return ReasonFull
	}
	return ReasonUnavailable
}
