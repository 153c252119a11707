package limiter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Options of a Limiter. The zero value is ready for use.
type Options struct {
	// Timeout bounds the store's work for one decision; 0 means DefaultTimeout. It is
	// below MinWindow. Stores in this process are not timed.
	Timeout time.Duration
	// FirstTimeout is the Timeout of the first decision, and of the first after five
	// seconds without a store call, which may have to connect anew, and of those that begin
	// before it is answered; 0 means Timeout. Once the store has not answered in time, it is
	// that of one decision in half a minute, where less than one a second asks. It is below
	// MinWindow, and no less than Timeout.
	FirstTimeout time.Duration
	// Trust is how long a remembered state may refuse without asking the store; 0
	// means a second, negative not at all. A refund, a reset or a changed limit made
	// elsewhere is noticed after that time at the latest. Where others take again and
	// again what room this process foresees, as in a flood, it asks half as often each
	// time: about once in Trust.
	Trust time.Duration
	// Remember is of how many subjects state is remembered, and the most leases and
	// counters that are held; 0 means 10,000.
	Remember int
	// Cells is the store, in this process, of limits with Spread.Cells. Without one a
	// charge on such a limit is invalid.
	Cells Store
	// Fallback is the store, in this process, of limits with OnErrorLocal while Store fails.
	// Without one a charge on such a limit is invalid; a Local store needs none, and what it
	// has no room for is then denied.
	Fallback Store
	// IntN chooses one of n at random, a shard or how long a busy subject has to wait, and
	// is safe for concurrent use; nil means math/rand/v2's. With a generator of a known seed decisions can be repeated.
	IntN func(n int) int
	// Logger gets the failures of the store: for each reason at most a line a second, with
	// the number of those that were left out; nil means slog.Default().
	Logger *slog.Logger
}

// DefaultTimeout is the time that a store has for a decision.
const DefaultTimeout = 900 * time.Millisecond

// connectionLife is after how long without a call connections to the store are taken to
// be gone.
const connectionLife = 5 * time.Second

// While the store does not answer in time, every silencePause a decision waits for longer, if
// none has asked for seldom: it may be that only connecting takes too long.
const (
	silencePause = 30 * time.Second
	seldom       = time.Second
)

// Limiter decides requests against a Store. It is safe for concurrent use. Make one
// per process, or environment, with New.
type Limiter struct {
	store    Store
	cells    Store
	fallback Store
	timeout  time.Duration
	first    time.Duration // in place of timeout, where the store has to be connected to
	asked    atomic.Int64  // when the store was, last
	silent   atomic.Int64  // since when it has not answered in time, or was last waited for; 0 if it has
	memory   *memory       // nil for a Local store
	accounts *accounts     // nil for a Local store
	groups   groups        // of a shared store
	pulse    pulse         // of a shared store
	intN     func(n int) int
	logger   *slog.Logger
	scratch  sync.Pool
	// When it was last logged that the store holds other rules, and that a shadow limit
	// would have refused.
	superseded, shadowed occasion
	troubles             troubles
}

// occasion is when something was told last, so that it is told now and then.
type occasion struct{ last atomic.Int64 }

// again reports whether it is time to tell it at now, and if so that it is told.
func (o *occasion) again(now algo.Instant, pause time.Duration) bool {
	last := o.last.Load()
	age := now.Sub(algo.Instant(last))
	return (age < 0 || age >= pause) && o.last.CompareAndSwap(last, int64(now))
}

// New returns a Limiter over store. It returns an error, which names the option, if one is out
// of range.
func New(store Store, o Options) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("limiter: store: got nil, want a Store")
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, cells: o.Cells, fallback: o.Fallback, timeout: o.Timeout, first: o.FirstTimeout, intN: o.IntN, logger: o.Logger}
	l.scratch.New = func() any { return new(request) }
	if _, ok := store.(Local); ok {
		l.timeout = 0
		if l.cells == nil {
			l.cells = store
		}
	} else {
		l.memory = newMemory(o.Remember, o.Trust)
		l.groups.waiting = map[Subject][]*waiter{}
		l.accounts = &accounts{most: o.Remember, table: map[accountKey]*account{}}
	}
	return l, nil
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
	r.look = false
	return l.decide(ctx, r, now, charges)
}

// Peek is Take, but for that it charges nothing: it tells what Take would. What is leased
// counts as charged, and of a limit with shards it sees one. It knows what this
// environment counted of a limit with Spread.Sync, and does not bring the counts together.
func (l *Limiter) Peek(ctx context.Context, now time.Time, charges []Charge) (Decision, error) {
	r := l.scratch.Get().(*request)
	defer l.scratch.Put(r)
	r.look = true
	return l.decide(ctx, r, now, charges)
}

// Reset forgets the subjects of charges, with all limits that they hold, in the store and in
// this environment: also what it counted by itself while the store failed. Others may
// remember a refusal for as long as Options.Trust, and leases for a second; what they count
// by themselves, of limits with Spread.Sync or Cells or with OnErrorLocal, they keep, and so does
// this one what is on its way to the store meanwhile. The store has no deadline but that of ctx.
func (l *Limiter) Reset(ctx context.Context, charges []Charge) error {
	var problems []error
	done := map[place]bool{}
	forget := func(at place) {
		if !done[at] {
			done[at] = true
			problems = append(problems, l.storeOf(at.role).Reset(ctx, at.subject))
		}
	}
	for _, c := range charges {
		role, subjects, _ := l.whereabouts(c)
		for _, subject := range subjects {
			l.forget(subject) // first, or what is pending would be brought to the store after it
			forget(place{role, subject})
			l.forget(subject)
		}
		if l.fallback != nil {
			forget(place{ofFallback, c.Limit.counted(c.Subject)})
		}
	}
	return errors.Join(problems...)
}

// forget forgets what this environment holds of subject, unless the store is being asked for it.
func (l *Limiter) forget(subject Subject) {
	if l.memory != nil {
		l.memory.forget(subject)
		l.accounts.forget(subject)
	}
}

// decide fills r.
func (l *Limiter) decide(ctx context.Context, r *request, now time.Time, charges []Charge) (Decision, error) {
	spread, err := l.validate(now, charges)
	if err != nil {
		return Decision{}, err
	}
	if l.memory == nil && len(charges) == 1 && !spread && !charges[0].Limit.Shadow && charges[0].Limit.OnError == OnErrorAllow && !r.look && !r.receipt {
		return l.decideOne(ctx, r, now, charges), nil
	}
	r.begin(now, charges, l.memory == nil)
	defer l.end(r)
	known := spread && l.memory != nil && !l.keep(ctx, r) // that the request is refused
	if !known {
		if err := r.arrange(l); err != nil {
			l.settle(r, true)
			return Decision{}, err
		}
		if known = l.refusedFromMemory(r); known {
			l.settle(r, true)
		} else {
			l.takeParts(ctx, r)
		}
	}
	l.log(ctx, r)
	d := r.decision(charges, known)
	if d.Reason == ReasonBusy {
		d.RetryAfter = l.busyWait()
	}
	if d.Shadowed != nil && l.shadowed.again(r.now, time.Second) {
		l.logger.LogAttrs(ctx, slog.LevelInfo, "shadow limit would have refused", slog.String("limit", d.Shadowed.Name))
	}
	return d, nil
}

// decideOne decides the only charge of a request in a store in this process, where what
// decide does for others would take most of the time.
func (l *Limiter) decideOne(ctx context.Context, r *request, at time.Time, charges []Charge) Decision {
	now, it := algo.InstantOf(at), item{Charge: charges[0], limit: charges[0].Limit, want: charges[0].Cost}
	// Of the request's, because what a Store is given cannot be on the stack.
	r.charges, r.results = append(r.charges[:0], charges[0]), append(r.results[:0], Result{})
	allowed, err := l.store.Take(ctx, now, it.Subject, r.charges, r.results)
	d := Decision{Allowed: allowed || err != nil, At: at, Charges: charges}
	if err != nil {
		if d.Reason = reasonOf(err); d.Reason == ReasonBusy {
			d.Allowed, d.RetryAfter = false, l.busyWait()
		}
		l.logFailure(ctx, now, err)
		return d
	}
	d.Mended = mended(r.charges, r.results)
	if d.speak(&it, r.results[0], now); d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if d.Superseded {
		l.logSuperseded(ctx, now, &it, r.results[0])
	}
	return d
}

// end frees what r holds, also if a store panics.
func (l *Limiter) end(r *request) {
	if r.cancel != nil {
		r.cancel()
	}
	if len(r.asks) > 0 {
		l.accounts.mu.Lock()
		defer l.accounts.mu.Unlock()
		l.wake(r)
	}
}

// deadline returns ctx with the deadline of the decision, which begins when it is
// first asked for.
func (l *Limiter) deadline(ctx context.Context, r *request) context.Context {
	if r.ctx == nil {
		r.ctx = ctx
		if l.timeout > 0 {
			timeout := l.timeout
			if l.connects(r.now) {
				timeout = l.first
			}
			r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		}
	}
	return r.ctx
}

// connects reports whether a decision at now may have to wait for a connection to open.
func (l *Limiter) connects(now algo.Instant) bool {
	pause := now.Sub(algo.Instant(l.asked.Load())).Abs()
	if silent := l.silent.Load(); silent != 0 {
		return pause >= seldom && now.Sub(algo.Instant(silent)).Abs() >= silencePause
	}
	return pause >= connectionLife
}

// answered notes whether the store has answered in time a call at now that ended with err.
func (l *Limiter) answered(now algo.Instant, err error) {
	silent := l.silent.Load()
	switch {
	case Answered(err) || reasonOf(err) != ReasonTimeout:
		l.silent.Store(0)
	case silent == 0 || now.Sub(algo.Instant(silent)).Abs() >= silencePause:
		l.silent.Store(int64(now))
	}
	l.asked.Store(int64(now))
}

// log tells what failed.
func (l *Limiter) log(ctx context.Context, r *request) {
	for i := range r.parts {
		p := &r.parts[i]
		if busy(p.err) {
			l.tell(ctx, r.now, slog.LevelWarn, "subject busy", p.err)
		} else if p.err != nil {
			l.logFailure(ctx, r.now, p.err)
		}
		for j := range p.items {
			if it := &p.items[j]; p.results[j].Machine != nil && !it.decided(p.results[j]) {
				l.logSuperseded(ctx, r.now, it, p.results[j])
			}
		}
	}
	if r.failure != nil {
		l.logFailure(ctx, r.now, r.failure)
	}
}

func (l *Limiter) logFailure(ctx context.Context, now algo.Instant, err error) {
	l.tell(ctx, now, slog.LevelError, "store failed", err)
}

// logSuperseded tells, at most once a minute, that the store holds other rules.
func (l *Limiter) logSuperseded(ctx context.Context, now algo.Instant, it *item, r Result) {
	if !l.superseded.again(now, time.Minute) {
		return
	}
	l.logger.LogAttrs(ctx, slog.LevelWarn, "rules superseded: the store holds a limit of a higher version, or of this version with other numbers; give changed rules a higher version",
		slog.String("limit", it.limit.Name), slog.Int64("version", it.limit.Version), slog.String("rules", it.limit.fingerprint), slog.String("decided_by", r.Machine.Fingerprint()))
}

// reasonOf names the failure of a store.
func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, ErrBreakerOpen):
		return ReasonBreaker
	case errors.Is(err, ErrThrottled):
		return ReasonThrottled
	case busy(err):
		return ReasonBusy
	case errors.Is(err, ErrFull):
		return ReasonFull
	case TimedOut(err):
		return ReasonTimeout
	}
	return ReasonUnavailable
}
