package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// InFlight returns the number of subjects with a store call in flight.
func (l *Limiter) InFlight() int {
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	return len(l.groups.waiting)
}

// FallbackHolds reports whether this process holds counts of an outage at the time now.
func (l *Limiter) FallbackHolds(now time.Time) bool { return l.fallback.Holds(algo.InstantOf(now)) }
