package algo

import "time"

// Result is the state of one limit of a subject and the machine that reads it. The zero value has no
// Machine: nothing is known about the limit.
type Result struct {
	Machine Machine
	State   State
	// Clamped reports that the store called Clamp for the state, because the state was too far in the future. A
	// charge of 0 does not set it. Clamped is not part of the state.
	Clamped bool
}

// RetryAfter returns the time from now until the cost is first allowed. It is 0 if the cost is allowed at the
// instant now, and Never if the cost is never allowed. The Machine MUST be known.
func (r Result) RetryAfter(now Instant, cost int64) time.Duration {
	return r.Machine.RetryAfter(r.State, now, cost)
}

// Remaining returns how many requests of cost 1 are still possible at the instant now. r.Machine MUST NOT be
// nil.
func (r Result) Remaining(now Instant) int64 { return r.Machine.Remaining(r.State, now) }
