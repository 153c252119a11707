package local

import "github.com/weir-limits/weir/limiter/algo"

// Limit identifies a limit inside its subject, and the rules that decide it. Two limits with one ID
// and different machines are versions of one limit.
type Limit struct {
	ID      uint64
	Machine algo.Machine
	Share   bool // the part of one of several processes, beside the whole limit
}

// Charge is a cost on one limit.
type Charge struct {
	Limit
	Cost  int64
	Force bool // past the limit
}

// take charges cost to a state of m, if it is allowed or forced.
func take(m algo.Machine, s algo.State, now algo.Instant, cost int64, force bool) (algo.State, bool) {
	if force {
		return m.Force(s, now, cost), true
	}
	return m.Take(s, now, cost)
}

// Convert returns what a state of the machine from counts, as a state of to at now.
func Convert(from, to algo.Machine, s algo.State, now algo.Instant) algo.State {
	if equal(from, to) {
		return s
	}
	return algo.Convert(from, to, s, now)
}

// equal reports whether two machines have the same parameters.
func equal(a, b algo.Machine) bool { return a == b || a.Fingerprint() == b.Fingerprint() }

// A subject takes less than a kilobyte with so many limits, and so many bytes of logs. One with more
// counts as several.
const (
	subjectLimits = 4
	subjectLog    = 512
)
