package simulate

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// meter counts what the store is asked: calls and units for the requests that count, heat
// and throttling in the seconds that do.
type meter struct {
	from, end     algo.Instant
	calls         int64
	writes, reads int64   // units, as billed
	hottest       float64 // the most units of one item in one second
	throttled     int64
}

// heat is what one item is asked in a second.
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

// warm adds units to an item.
func (m *meter) warm(h *heat, at algo.Instant, units float64) {
	if second := int64(at) / int64(time.Second); h.second != second {
		*h = heat{second: second}
	}
	h.units += units
	if at >= m.from && at < m.end {
		m.hottest = max(m.hottest, h.units)
	}
}
