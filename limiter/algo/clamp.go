package algo

import "time"

// Skew records that a store found a state too far ahead of a clock. The store keeps the Skew with the
// state. The zero value means that it found none.
type Skew struct {
	Since  Instant // when a store found the state ahead or clamped it
	Newest int64   // newest instant or window of that state; 0 after a clamp
}

// Clamp returns the next state and Skew for a state that is further ahead of now than honest clocks allow
// (Machine.Ahead). The caller MUST pass only such a state.
//
// Either the clock that reads now is slow, or the clock that wrote the state was fast. The state does not show which
// clock is wrong. Therefore, Clamp waits before it changes the state:
//
//   - The first call records the Skew. The state still decides unchanged: a window or a log admits its
//     remaining quota, and a bucket refuses every request.
//   - Calls within a horizon plus MaxSkew after that change nothing.
//   - The first later call compares the state with the Skew. If nobody charged the state by a clock that was
//     not behind it, the call replaces the state by a full charge. Otherwise it records a new Skew.
//
// A clamp needs this wait each time. Therefore, two clocks that alternate never create a quota twice. A clock that
// was wrong once blocks the other clocks for at most two horizons, however far it was ahead.
func Clamp(m Machine, s State, k Skew, now Instant) (State, Skew) {
	due := k.Since.Add(stillness(m))
	switch {
	case now < due:
		return s, k
	case m.newest(s) == k.Newest:
		return m.full(s, due), Skew{Since: now}
	}
	return s, Skew{now, m.newest(s)}
}

// stillness is the time without charges after which a state is clamped.
func stillness(m Machine) time.Duration { return m.Horizon() + MaxSkew }

// clampedWait returns the time from now until the cost is allowed, for a state s that is too far ahead of now.
// It expects that the store clamps s if nobody charges it. wait is the time without a clamp; a negative wait
// has overflowed.
func clampedWait(m Machine, s State, now Instant, cost int64, wait time.Duration) time.Duration {
	still := stillness(m)
	due := now.Add(still)
	if clamped := still + m.RetryAfter(m.full(s, due), due, cost); wait < 0 || wait > clamped {
		return clamped
	}
	return wait
}
