package simulate

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// meter counts calls and units of the requests after the warm-up. It also measures the heat and the
// throttling in the seconds after the warm-up.
type meter struct {
	from, end algo.Instant
	calls     int64
	writes    int64   // billed units
	reads     float64 // billed units
	hottest   float64 // the largest number of units of one item in a second
	throttled int64
	settled   int64 // billed units of settlements, which writes includes
}

// heat is the number of units of one item in a second.
type heat struct {
	second int64
	units  float64
}

// refuse counts a call that was throttled.
func (m *meter) refuse(at algo.Instant) {
	if at >= m.from && at < m.end {
		m.throttled++
	}
}

// warm adds units to the heat of an item, and updates m.hottest.
func (m *meter) warm(h *heat, at algo.Instant, units float64) {
	if second := int64(at) / int64(time.Second); h.second != second {
		*h = heat{second: second}
	}
	h.units += units
	if at >= m.from && at < m.end {
		m.hottest = max(m.hottest, h.units)
	}
}
