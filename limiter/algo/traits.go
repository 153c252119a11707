package algo

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
