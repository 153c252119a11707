package algo

import "time"

// Algorithms returns the algorithms that count requests, the default first. Concurrent, which counts requests in flight,
// is not among them.
func Algorithms() []Algorithm {
	return []Algorithm{SlidingWindow, FixedWindow, TokenBucket, LeakyBucket, SlidingLog}
}

// HasBurst reports whether a Rate of this algorithm has a Burst.
func (a Algorithm) HasBurst() bool { return a == TokenBucket || a == LeakyBucket }

// Queues reports whether an allowed request has a Delay.
func (a Algorithm) Queues() bool { return a == LeakyBucket }

// HasWindows reports whether usage is counted in windows.
func (a Algorithm) HasWindows() bool { return a == SlidingWindow || a == FixedWindow }

// Resets reports whether all usage ends at one instant, the end of a window or period.
func (a Algorithm) Resets() bool { return a == FixedWindow }

// Logs reports whether a limit of any size stores the instant of each request.
func (a Algorithm) Logs() bool { return a == SlidingLog }

// TakesSlots reports whether a request takes a slot, which it releases when it ends.
func (a Algorithm) TakesSlots() bool { return a == Concurrent }

// NoLease returns why a process cannot take quota in advance; "" if it can.
func (a Algorithm) NoLease() string {
	switch a {
	case SlidingLog:
		return "a sliding_log stores the instant of each request"
	case LeakyBucket:
		return "a leaky_bucket spaces its requests; a token_bucket is the same without"
	default:
		return ""
	}
}

// Leak returns the time in which a charge of this cost leaks out of m; Never if m keeps a charge in full until it
// expires. A cost above the Capacity counts as the Capacity. m may be nil.
func Leak(m Machine, cost int64) time.Duration {
	if b, ok := m.(*Bucket); ok {
		return b.Increment(min(cost, b.Burst))
	}
	return Never
}

// Leaks reports whether charges leak out of m steadily.
func Leaks(m Machine) bool { return Leak(m, 1) != Never }

// Delay returns how long after now a request of this cost leaves a queue. s is the state of m after the charge of the
// request. Requests that wait for their Delay leave one interval apart. It is 0 if charges do not leak out of m.
func Delay(m Machine, s State, now Instant, cost int64) time.Duration {
	return max(0, m.ResetAfter(s, now)-Leak(m, cost))
}

// KeepsInstants reports whether a state of m has the instant of each request. m may be nil.
func KeepsInstants(m Machine) bool {
	_, ok := m.(*Log)
	return ok
}

// TakesSlots reports whether a charge on m takes slots, which a refund releases. m may be nil.
func TakesSlots(m Machine) bool {
	_, ok := m.(*Slots)
	return ok
}
