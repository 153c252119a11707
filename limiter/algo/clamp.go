package algo

import "time"

// Mark is what a store keeps with a state that is too far ahead of a clock. The zero value is no mark.
type Mark struct {
	Since  Instant // when the clock found the state, or clamped it
	Newest int64   // of that state, as only its machine reads it; 0 once it has been clamped
}

// Clamp returns the next state and mark for a state that is further ahead of now than honest clocks
// allow (Machine.Ahead). The caller MUST NOT pass another state.
//
// Either the clock of now is slow, or the clock that made the state was fast: the state does not show
// which. So a state is clamped only when it counts nothing any more by the clock that made it. A clock
// that finds it ahead marks it. If no clock ahead charges it for a horizon and MaxSkew, the state
// becomes a full charge at that instant. Until then it decides as it is: windows and logs share what is
// left of them with the clock that is behind, and a bucket refuses.
//
// A mark is renewed, and a state clamped, only a horizon after the mark. Clocks that alternate therefore
// never create a quota twice. A clock that was wrong once blocks the others for at most two horizons,
// not for as long as it was ahead.
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

// clampedWait returns how long after now cost is allowed if s is too far ahead of now: after wait, when
// the time of s has come, or earlier if s is clamped as soon as possible. A wait that no instant can
// hold is negative.
func clampedWait(m Machine, s State, now Instant, cost int64, wait time.Duration) time.Duration {
	still := stillness(m)
	due := now.Add(still)
	if clamped := still + m.RetryAfter(m.full(s, due), due, cost); wait < 0 || wait > clamped {
		return clamped
	}
	return wait
}
