package simulate

import "github.com/weir-limits/weir/limiter/algo"

// allowance grants a number of units per second. Unused units are kept for one second. At the start
// there is one unit, so that the first second of an overload has no more units than later ones.
type allowance struct {
	rate   float64
	spare  float64 // units that are left now
	filled algo.Instant
}

func newAllowance(rate float64, at algo.Instant) allowance {
	return allowance{rate: rate, spare: 1, filled: at}
}

// open reports whether a unit is left. It does not take the unit.
func (a *allowance) open(at algo.Instant) bool {
	a.spare = min(a.rate, a.spare+at.Sub(a.filled).Seconds()*a.rate)
	a.filled = at
	return a.spare >= 1
}
