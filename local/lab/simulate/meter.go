package simulate

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// meter counts calls and billed units after the warm-up, and for each second the units of the
// busiest item and the throttled calls.
type meter struct {
	from, end algo.Instant
	calls     int64
	writes    int64   // billed units
	reads     float64 // billed units
	hottest   float64 // largest number of units of one item in one second
	throttled int64
}

// heat counts the units of one item in the current second.
type heat struct {
	second int64
	units  float64
}

func (m *meter) refuse(at algo.Instant) {
	if at >= m.from && at < m.end {
		m.throttled++
	}
}

// warm adds units to an item's heat, and updates m.hottest.
func (m *meter) warm(h *heat, at algo.Instant, units float64) {
	if second := int64(at) / int64(time.Second); h.second != second {
		*h = heat{second: second}
	}
	h.units += units
	if at >= m.from && at < m.end {
		m.hottest = max(m.hottest, h.units)
	}
}

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
