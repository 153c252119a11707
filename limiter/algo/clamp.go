package algo

import "time"

// Mark records that a store found a state too far ahead of a clock. The store keeps the Mark with the
// state. The zero value means that the state is not marked.
type Mark struct {
	Since  Instant // when the clock found the state, or clamped it
	Newest int64   // Machine.newest of that state; 0 after it was clamped
}

// Clamp returns the next state and mark for a state that is further ahead of now than honest clocks allow
// (Machine.Ahead). The caller MUST pass only such a state.
//
// Either the clock of now is slow, or the clock that made the state was fast. The state does not show
// which clock is wrong. Therefore, Clamp waits until the state would have expired by the clock that made
// it. The first clock that finds the state ahead marks the state. If no fast clock charges the state for
// a horizon plus MaxSkew, the state becomes a full charge at the end of that time. Until then the state
// decides unchanged. For a clock that is behind, a window or a log admits the quota that is left, and a
// bucket refuses every request.
//
// A mark is renewed, and a state is clamped, only when a horizon plus MaxSkew has passed since the mark.
// Therefore, clocks that alternate never create a quota twice. A clock that was wrong once blocks the
// other clocks for at most two horizons, not for the whole time that it was ahead.
func Clamp(m Machine, s State, k Mark, now Instant) (State, Mark) {
	due := k.Since.Add(stillness(m))
	switch {
	case now < due:
		return s, k
	case m.newest(s) == k.Newest:
		return m.full(s, due), Mark{Since: now}
	}
	return s, Mark{now, m.newest(s)}
}

// stillness is how long a state must be without charges before it is clamped.
func stillness(m Machine) time.Duration { return m.Horizon() + MaxSkew }

// clampedWait returns the time from now until cost is allowed, for a state s that is too far ahead of
// now. wait is this time if the store never clamps s; a negative wait has overflowed. The result is
// shorter than wait if a clamp of s allows cost earlier.
func clampedWait(m Machine, s State, now Instant, cost int64, wait time.Duration) time.Duration {
	still := stillness(m)
	due := now.Add(still)
	if clamped := still + m.RetryAfter(m.full(s, due), due, cost); wait < 0 || wait > clamped {
		return clamped
	}
	return wait
}
