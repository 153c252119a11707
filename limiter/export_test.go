package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// InFlight returns the number of subjects with a store call in flight.
func (l *Limiter) InFlight() int {
	return l.groups.InFlight()
}

// FallbackHolds reports whether this process holds counts of an outage at the time now.
func (l *Limiter) FallbackHolds(now time.Time) bool { return l.fallback.Holds(algo.InstantOf(now)) }
