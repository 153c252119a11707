package local

import "github.com/weir-limits/weir/limiter/algo"

// Convert converts the state s at the instant now. The machine of s is from; the machine of the result is to.
func Convert(from, to algo.Machine, s algo.State, now algo.Instant) algo.State {
	if from == to || from.Fingerprint() == to.Fingerprint() {
		return s
	}
	return algo.Convert(from, to, s, now)
}
