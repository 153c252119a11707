package local

import "github.com/weir-limits/weir/limiter/algo"

// take adds the cost to the state s if the machine m allows the cost or force is true. It reports whether it
// did.
func take(m algo.Machine, s algo.State, now algo.Instant, cost int64, force bool) (algo.State, bool) {
	if force {
		return m.Force(s, now, cost), true
	}
	return m.Take(s, now, cost)
}

// Convert converts the state s at the instant now. The machine of s is from; the machine of the result is to.
func Convert(from, to algo.Machine, s algo.State, now algo.Instant) algo.State {
	if from == to || from.Fingerprint() == to.Fingerprint() {
		return s
	}
	return algo.Convert(from, to, s, now)
}
