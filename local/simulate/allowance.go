package simulate

import "github.com/weir-limits/weir/limiter/algo"

// allowance is so many units a second, and what was left over of the last second; what is
// more is throttled. It begins with next to nothing: an overload that lasts must not look
// better for having just begun.
type allowance struct {
	rate   float64
	spare  float64 // units that it takes at once
	filled algo.Instant
}

func newAllowance(rate float64, at algo.Instant) allowance {
	return allowance{rate: rate, spare: 1, filled: at}
}

// open reports whether anything can be taken.
func (a *allowance) open(at algo.Instant) bool {
	a.spare = min(a.rate, a.spare+at.Sub(a.filled).Seconds()*a.rate)
	a.filled = at
	return a.spare >= 1
}
