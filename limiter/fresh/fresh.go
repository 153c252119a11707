package fresh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a Value; compare with errors.Is.
var (
	// ErrAbsent is the answer of a source that has no value. A Load returns it.
	ErrAbsent = errors.New("no value")
	// ErrExpired is a value that is older than Policy.Stale although its source answers: the
	// source serves an old copy.
	ErrExpired = errors.New("value expired")
)

// Policy is how long a Value is used and how often its source is read. Times are ages at the
// instants that requests pass. It does not change after the first use.
type Policy struct {
	Fresh    time.Duration // a value of this age is read again
	Absent   time.Duration // an absence of this age is read again
	Stale    time.Duration // a value of this age is not used; 0: no value is too old
	Cooldown time.Duration // from a failed read to the next while there is a value to use
	Retry    time.Duration // from a failed read to the next otherwise
	Timeout  time.Duration // of one read
	// Admit, if not nil, is called before each read. If it returns an error, the read does not
	// begin, and a request without a value to use gets that error. The call must not use the
	// Value.
	Admit func(now time.Time) error
}

// Load reads a source. asOf is when the value was current, which is earlier than the read for a
// copy; the zero Time means now. The error wraps ErrAbsent if the source has no value. ctx ends
// after Policy.Timeout, and not with a request. A Load MUST return when ctx ends: until then no
// other read begins.
type Load[V any] func(ctx context.Context) (value V, asOf time.Time, err error)

// Value is a value that is read when a request needs it and kept. Make one with New. It is safe
// for concurrent use, and takes no lock while its value is fresh.
type Value[V any] struct {
	policy *Policy
	state  atomic.Pointer[state[V]]

	mu      sync.Mutex    // held to begin and to end a read
	reading chan struct{} // closed at the end of the read under way; nil without one
}

// New returns a Value that was never read. Values may share a Policy.
func New[V any](p *Policy) *Value[V] {
	v := &Value[V]{policy: p}
	v.state.Store(&state[V]{})
	return v
}

// Get returns the value at now. If it is not fresh, Get reads it with load and waits. It does not wait
// if there is a value to use and another request already reads it. Without a value to use, the error
// is that of the last read or of ctx, or wraps ErrAbsent or ErrExpired.
func (v *Value[V]) Get(ctx context.Context, now time.Time, load Load[V]) (V, error) {
	if !v.Due(now) {
		return v.Peek(now)
	}
	done, err := v.begin(ctx, now, load, func(s *state[V], reading bool) bool {
		return s.due(v.policy, now) && (!reading || !s.usable(v.policy, now))
	})
	if done != nil {
		err = wait(ctx, done)
	}
	s := v.state.Load()
	if err != nil && !s.usable(v.policy, now) {
		var none V
		return none, err
	}
	return s.answer(v.policy, now)
}

// Renew returns the value at now if the previous value is useless for the request, even a fresh one.
// It waits for a read under way. Otherwise it begins a read if may returns true for the age of the
// last read. After a failed read, it begins one if the Policy allows the next one. Calls of may do not
// overlap.
func (v *Value[V]) Renew(ctx context.Context, now time.Time, load Load[V], may func(age time.Duration) bool) (V, error) {
	done, err := v.begin(ctx, now, load, func(s *state[V], reading bool) bool {
		return reading || s.failed != nil && s.rested(v.policy, now) || s.failed == nil && may(s.age(now))
	})
	if done != nil {
		err = wait(ctx, done)
	}
	if err != nil {
		var none V
		return none, err
	}
	return v.Peek(now)
}

// Peek returns what Get would return, without a read.
func (v *Value[V]) Peek(now time.Time) (V, error) { return v.state.Load().answer(v.policy, now) }

// Due reports whether Get reads the source at now or waits for a read.
func (v *Value[V]) Due(now time.Time) bool { return v.state.Load().due(v.policy, now) }

// Err returns the error of the last read; nil if the source answered, also without a value.
func (v *Value[V]) Err() error { return v.state.Load().failed }

// begin returns the end of the read under way. If there is none, it begins one if need returns true,
// and returns nil otherwise. The error is that of Policy.Admit.
func (v *Value[V]) begin(ctx context.Context, now time.Time, load Load[V], need func(s *state[V], reading bool) bool) (<-chan struct{}, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !need(v.state.Load(), v.reading != nil):
		return nil, nil
	case v.reading != nil:
		return v.reading, nil
	case v.policy.Admit != nil:
		if err := v.policy.Admit(now); err != nil {
			return nil, err
		}
	}
	v.reading = make(chan struct{})
	go v.read(context.WithoutCancel(ctx), now, load)
	return v.reading, nil
}

// read reads the source and stores the new state.
func (v *Value[V]) read(ctx context.Context, now time.Time, load Load[V]) {
	ctx, cancel := context.WithTimeout(ctx, v.policy.Timeout)
	defer cancel()
	value, asOf, err := load(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	next := &state[V]{tried: now}
	switch {
	case err == nil:
		next.value, next.known, next.read, next.asOf = value, true, now, now
		if !asOf.IsZero() && asOf.Before(now) {
			next.asOf = asOf
		}
	case !errors.Is(err, ErrAbsent):
		*next = *v.state.Load()
		next.tried, next.failed = now, err
	}
	v.state.Store(next)
	close(v.reading)
	v.reading = nil
}

// wait waits until done is closed. The error is that of ctx if it ends before.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // both were ready, and select takes either
		return nil
	default:
		return ctx.Err()
	}
}
