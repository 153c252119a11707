package local

import "github.com/weir-limits/weir/limiter/algo"

// Limit is a limit of a subject under one version of its rules. Limits with the same ID and different
// machines are versions of one limit.
type Limit struct {
	ID      uint64
	Machine algo.Machine
	Share   bool // the limit is the share of one process; its state is separate from that of the whole limit
}

// Charge is a cost on one limit.
type Charge struct {
	Limit
	Cost  int64
	Force bool // charge past the limit
}

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
	if equal(from, to) {
		return s
	}
	return algo.Convert(from, to, s, now)
}

// equal reports whether two machines have the same parameters.
func equal(a, b algo.Machine) bool { return a == b || a.Fingerprint() == b.Fingerprint() }

// A subject with at most subjectLimits limits and subjectLog bytes of logs takes less than a kilobyte. A
// larger subject counts as several subjects.
const (
	subjectLimits = 4
	subjectLog    = 512
)
