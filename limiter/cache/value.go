package cache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a Value; compare with errors.Is.
var (
	// ErrAbsent means that the source has no value. A Load returns it.
	ErrAbsent = errors.New("no value")
	// ErrExpired means that the source answers with a copy that is older than Policy.Stale.
	ErrExpired = errors.New("value expired")
)

// Policy defines how long a Value is used, and how often its source is read. Ages are relative to the
// instants that requests pass. A Policy MUST NOT change after its first use.
type Policy struct {
	Fresh    time.Duration // age at which a value is read again
	Absent   time.Duration // time after which the source is read again if it had no value
	Stale    time.Duration // age at which a value is no longer used; 0 means never
	Cooldown time.Duration // time between a failed read and the next, if there is a usable value
	Retry    time.Duration // time between a failed read and the next, if there is no usable value
	Timeout  time.Duration // bounds one read
	// Admit, if not nil, is called before each read. If it returns an error, the read does not begin.
	// A request without a usable value then gets that error. Admit MUST NOT use the Value.
	Admit func(now time.Time) error
}

// Load reads a source. asOf is the time at which the value was current. If the source returned a copy,
// asOf is before the read. The zero Time means now. The error wraps ErrAbsent if the source has no value.
// ctx ends after Policy.Timeout, not when a request ends. A Load MUST return when ctx ends, because no
// other read begins before it returns.
type Load[V any] func(ctx context.Context) (value V, asOf time.Time, err error)

// Value is a cached value, read when a request needs it. Make one with New. It is safe for concurrent use,
// and takes no lock while the value is fresh.
type Value[V any] struct {
	policy *Policy
	state  atomic.Pointer[state[V]]

	mu      sync.Mutex    // guards reading, and changes of state
	reading chan struct{} // closed when the read in progress ends; nil if there is none
}

// New returns a Value that was never read. Values may share a Policy.
func New[V any](p *Policy) *Value[V] {
	v := &Value[V]{policy: p}
	v.state.Store(&state[V]{})
	return v
}

// Get returns the value at the time now. If the value is not fresh, Get reads it with load and waits. If
// another request already reads it and the previous value is usable, Get returns the previous value without
// waiting. If there is no usable value, the error is the error of the last read or of ctx, or wraps ErrAbsent
// or ErrExpired.
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

// Renew is for a request that cannot use the present value even if it is fresh, for example because a key is
// missing in it. If a read is in progress, Renew waits for it. If not, the function permit decides whether
// Renew begins a read. age is the age of the last read. If the last read failed, the Policy decides instead of
// permit. After that, Renew returns the value at the time now. Calls of permit do not overlap.
func (v *Value[V]) Renew(ctx context.Context, now time.Time, load Load[V], permit func(age time.Duration) bool) (V, error) {
	done, err := v.begin(ctx, now, load, func(s *state[V], reading bool) bool {
		return reading || s.failed != nil && s.rested(v.policy, now) || s.failed == nil && permit(s.age(now))
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

// Peek returns the value at the time now as Get does, but never reads the source.
func (v *Value[V]) Peek(now time.Time) (V, error) { return v.state.Load().answer(v.policy, now) }

// Due reports whether Get at the time now would read the source or wait for a read.
func (v *Value[V]) Due(now time.Time) bool { return v.state.Load().due(v.policy, now) }

// Err returns the error of the last read. It is nil if the source answered, even if it had no value.
func (v *Value[V]) Err() error { return v.state.Load().failed }

// begin returns a channel that is closed when the read in progress ends. If the function need returns false,
// the channel is nil. Otherwise, begin starts a read if none is in progress. The error is the error of
// Policy.Admit.
func (v *Value[V]) begin(ctx context.Context, now time.Time, load Load[V], need func(s *state[V], reading bool) bool) (<-chan struct{},
	error) {
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

// wait waits until done is closed. If ctx ends first, it returns the error of ctx.
func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done: // done and ctx are both ready, and select chose ctx at random
		return nil
	default:
		return ctx.Err()
	}
}

// state is the state of a Value after a read. It is immutable. The zero value is the state before the first
// read.
type state[V any] struct {
	value  V
	known  bool      // the source had a value when it last answered
	read   time.Time // when the source last answered with a value
	asOf   time.Time // when the value was current
	tried  time.Time // when the last read began
	failed error     // the error of the last read
}

// age returns the age of the last read. It is never negative, although the instants of concurrent
// requests can be out of order.
func (s *state[V]) age(now time.Time) time.Duration { return now.Sub(s.tried).Abs() }

// usable reports whether the value may be used at the time now.
func (s *state[V]) usable(p *Policy, now time.Time) bool {
	return s.known && (p.Stale == 0 || now.Sub(s.asOf) < p.Stale)
}

// due reports whether Get reads the source at the time now.
func (s *state[V]) due(p *Policy, now time.Time) bool {
	switch {
	case s.tried.IsZero():
		return true
	case s.usable(p, now) && now.Sub(s.read).Abs() < p.Fresh:
		return false
	case s.failed == nil && !s.known:
		return s.age(now) >= p.Absent
	case s.failed == nil && s.usable(p, now):
		return true
	}
	return s.rested(p, now)
}

// rested reports whether the source may be read again at the time now, after a read that failed or returned an
// expired value.
func (s *state[V]) rested(p *Policy, now time.Time) bool {
	if s.failed != nil && !s.usable(p, now) {
		return s.age(now) >= p.Retry
	}
	return s.age(now) >= p.Cooldown
}

// answer returns the value at the time now, or the reason why there is no usable value.
func (s *state[V]) answer(p *Policy, now time.Time) (value V, err error) {
	switch {
	case s.usable(p, now):
		return s.value, nil
	case s.failed != nil:
		return value, s.failed
	case s.known:
		return value, ErrExpired
	}
	return value, ErrAbsent
}
