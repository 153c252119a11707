package simulate

import "github.com/weir-limits/weir/limiter/algo"

// allowance provides a number of units a second. It keeps the unused units of the last second. An
// allowance begins with one unit, so that the first second of an overload has no more units than the
// next seconds.
type allowance struct {
	rate   float64
	spare  float64 // units available now
	filled algo.Instant
}

func newAllowance(rate float64, at algo.Instant) allowance {
	return allowance{rate: rate, spare: 1, filled: at}
}

// open reports whether a unit is available.
func (a *allowance) open(at algo.Instant) bool {
	a.spare = min(a.rate, a.spare+at.Sub(a.filled).Seconds()*a.rate)
	a.filled = at
	return a.spare >= 1
}
