package limiter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/internal/local"
)

// Limiter decides requests against a Store. Create one per process with New. It is safe for
// concurrent use.
type Limiter struct {
	store     Store
	cells     Store
	timeout   time.Duration
	connector Connector // nil if the store is none
	intN      func(n int) int
	clock     Clock
	log       logs
	scratch   sync.Pool // of *request

	// The rest is what this process keeps of a shared store; the pointers are nil for a Local one.
	denials  denials   // states that deny without a store call
	accounts *accounts // leases and counters
	fallback fallback  // what was admitted in an outage
	groups   groups    // of requests that share a store call
	pulse    pulse
	failing  atomic.Bool  // the store did not answer the last call
	active   atomic.Int64 // requests that are being decided
}

// New returns a Limiter over store. The error names the option that is out of range.
func New(store Store, o Options) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("limiter: store: got nil, want a Store")
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, cells: o.Cells, timeout: o.Timeout, intN: o.IntN, clock: o.Clock, log: logs{Logger: o.Logger}}
	l.connector, _ = store.(Connector)
	l.scratch.New = func() any { return new(request) }
	if _, ok := store.(Local); ok {
		l.timeout = 0
		if l.cells == nil {
			l.cells = store
		}
		return l, nil
	}
	l.denials = denials{local.NewDenials(o.Remember, o.Trust, o.IntN)}
	l.accounts = &accounts{most: o.Remember, table: map[accountKey]*account{}}
	l.fallback = fallback{local.NewFallback(o.Fallback)}
	l.groups.waiting = map[Subject][]*waiter{}
	return l, nil
}

// shares reports whether other processes charge the store too.
func (l *Limiter) shares() bool { return l.accounts != nil }

// Take decides one request at now: it charges all of charges, or none as far as they can be
// refunded. Charges on one subject are one atomic step of the store; several subjects are charged
// at the same time. Read the clock once per request and pass that instant.
//
// Take keeps the values of ctx and ignores its cancellation: a client that disconnects has still
// made its request. An error wraps ErrInvalidCharge and reports a mistake in charges. Failures of
// the store are in the Decision.
func (l *Limiter) Take(ctx context.Context, now time.Time, charges []Charge) (Decision, error) {
	r := l.scratch.Get().(*request)
	defer l.scratch.Put(r)
	r.look = false
	return l.decide(ctx, r, now, charges)
}

// Peek returns what Take would decide, and charges nothing. Leased quota counts as charged. Of a
// limit with shards it reads one shard. Of a limit with Spread.Sync it uses the count of this
// process and does not synchronize it.
func (l *Limiter) Peek(ctx context.Context, now time.Time, charges []Charge) (Decision, error) {
	r := l.scratch.Get().(*request)
	defer l.scratch.Put(r)
	r.look = true
	return l.decide(ctx, r, now, charges)
}

// Reset deletes all state of the subjects of charges, in the store and in this process, including
// what this process counted during an outage. Other processes may deny from their caches for
// Options.Trust and serve leases for a second. They keep what they count by themselves
// (Spread.Sync, Spread.Cells, OnErrorLocal), and this process keeps what it is sending to the store
// at that moment. Only ctx bounds the calls.
func (l *Limiter) Reset(ctx context.Context, charges []Charge) error {
	var problems []error
	done := map[place]bool{}
	reset := func(at place) {
		if !done[at] {
			done[at] = true
			problems = append(problems, l.storeOf(at.role).Reset(ctx, at.subject))
		}
	}
	for _, c := range charges {
		role, subjects, _ := l.whereabouts(c)
		for _, subject := range subjects {
			l.forget(subject) // first, so that nothing pending reaches the store after the reset
			reset(place{role, subject})
			l.forget(subject)
		}
		if l.shares() {
			reset(place{ofLocal, c.Limit.counted(c.Subject)})
		}
	}
	return errors.Join(problems...)
}

// forget deletes what this process keeps of subject, unless a call for it is in flight.
func (l *Limiter) forget(subject Subject) {
	if l.shares() {
		l.denials.Forget(subject.name)
		l.accounts.forget(subject)
	}
}
