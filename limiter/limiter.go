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
	// Timeout bounds the time that a decision waits for a shared store; 0 means DefaultTimeout.
	// It is below MinWindow. A store that is a Connector may extend it. A Local store has no
	// timeout.
	Timeout time.Duration
	// Trust is how long a remembered state may refuse without asking the store; 0
	// means a second, negative not at all. A refund, a reset or a changed limit made
	// elsewhere is noticed after that time at the latest. Where others take again and
	// again what room this process foresees, as in a flood, about one call in Trust is
	// refused.
	Trust time.Duration
	// Remember is of how many subjects state is remembered, and the most leases and
	// counters that are held; 0 means 10,000.
	Remember int
	// Cells is the store, in this process, of limits with Spread.Cells. Without one a
	// charge on such a limit is invalid.
	Cells Store
	// Fallback is the most subjects that are counted in this process in an outage, by limits
	// with OnErrorLocal; one with a long log counts as several. 0 means DefaultFallback. Who
	// finds no room is denied (Decision.LocalFull). A Local store needs no fallback: whom it has no room
	// for is denied at once.
	Fallback int
	// IntN chooses one of n at random, a shard or how long a caller has to wait, and
	// is safe for concurrent use; nil means math/rand/v2's. With a generator of a known seed decisions can be repeated.
	IntN func(n int) int
	// Logger gets the failures of the store: for each reason at most a line a second, with
	// the number of those that were left out; nil means slog.Default().
	Logger *slog.Logger
}

// DefaultTimeout is how long a decision waits for a shared store, at most.
const DefaultTimeout = 900 * time.Millisecond

// DefaultFallback is how many subjects a process counts by itself in an outage: about 10 MB at most.
const DefaultFallback = 50_000

// Limiter decides requests against a Store. It is safe for concurrent use. Make one
// per process, or environment, with New.
type Limiter struct {
	store     Store
	cells     Store
	local     *local // nil for a Local store
	timeout   time.Duration
	connector Connector    // nil if the store is none
	failing   atomic.Bool  // the store did not answer the last call
	active    atomic.Int64 // requests that are being decided
	memory    *memory      // nil for a Local store
	accounts  *accounts    // nil for a Local store
	intN      func(n int) int
	logger    *slog.Logger
	scratch   sync.Pool
	groups    groups // of a shared store
	pulse     pulse  // of a shared store
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
	l := &Limiter{store: store, cells: o.Cells, timeout: o.Timeout, intN: o.IntN, logger: o.Logger}
	l.connector, _ = store.(Connector)
	l.scratch.New = func() any { return new(request) }
	if _, ok := store.(Local); ok {
		l.timeout = 0
		if l.cells == nil {
			l.cells = store
		}
	} else {
		l.memory = newMemory(o.Remember, o.Trust, o.IntN)
		l.groups.waiting = map[Subject][]*waiter{}
		l.local = newLocal(o.Fallback)
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
		if l.local != nil {
			forget(place{ofLocal, c.Limit.counted(c.Subject)})
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
	if l.memory == nil && len(charges) == 1 && !spread && !charges[0].Limit.Shadow && !r.look && !r.receipt {
		return l.decideOne(ctx, r, now, charges), nil
	}
	r.begin(now, charges, l.memory == nil)
	l.active.Add(1)
	defer l.end(r)
	known := l.memory != nil && (spread || l.accounts.strained(r.now)) && !l.keep(ctx, r) // that the request is refused
	if !known {
		if err := r.arrange(l); err != nil {
			l.settle(r, true)
			return Decision{}, err
		}
		if known = l.refusedFromMemory(r) || l.refusedLocally(r); known {
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
	r.charges, r.results = append(r.charges[:0], charges[0]), append(r.results[:0], algo.Result{})
	allowed, err := l.store.Take(ctx, now, it.Subject, r.charges, r.results)
	d := Decision{Allowed: allowed, At: at, Charges: charges}
	if err != nil {
		switch d.Reason = reasonOf(err); {
		case d.Reason == ReasonBusy:
			d.RetryAfter = l.busyWait()
		case it.limit.OnError == OnErrorAllow:
			d.Allowed = true
		default: // there is no other process memory to fall back to
			d.Failed, d.LocalFull = true, it.limit.OnError == OnErrorLocal
		}
		l.logFailure(ctx, now, err)
		return d
	}
	d.Clamped = clamped(r.charges, r.results)
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
	l.active.Add(-1)
	if r.cancel != nil {
		r.cancel()
	}
	if len(r.asks) > 0 {
		l.accounts.mu.Lock()
		defer l.accounts.mu.Unlock()
		l.wake(r)
	}
}

// deadline returns ctx with the deadline of the decision, which begins with its first call of a
// shared store.
func (l *Limiter) deadline(ctx context.Context, r *request) context.Context {
	if r.ctx == nil {
		r.ctx = ctx
		if l.timeout > 0 {
			timeout := l.timeout
			if l.connector != nil {
				timeout = max(timeout, l.connector.ConnectTimeout(r.now))
			}
			r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		}
	}
	return r.ctx
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
func (l *Limiter) logSuperseded(ctx context.Context, now algo.Instant, it *item, r algo.Result) {
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
