package cache

import "time"

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
