package local

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// LeaseLife is how long a lease serves at most.
const LeaseLife = time.Second

// Lease is quota that this process took from the store in advance. The zero value serves nothing.
type Lease struct {
	algo.Result   // the state of the store after the lease was taken
	Granted, Used int64
	Taken         algo.Instant
	Serial        int64         // distinguishes the leases of one limit
	Grace         time.Duration // before the lease of a bucket leaks
}

// Left returns how many requests the lease still serves at now.
func (l *Lease) Left(now algo.Instant) int64 {
	age := now.Sub(l.Taken)
	if l.Granted == l.Used || age > LeaseLife || -age > LeaseLife {
		return 0
	}
	age = max(0, age)
	left := l.Granted - l.Used
	switch m := l.Machine.(type) {
	case *algo.Bucket: // what has leaked would have leaked from the bucket too
		left -= int64((max(0, age-l.Grace) + m.Interval - 1) / m.Interval)
	case *algo.Window: // the lease is charged to this window
		if m.Index(now) > l.State.Window {
			return 0
		}
	}
	return max(0, left)
}

// Next returns the size of the next lease at now, for a request of cost: twice the last one if that
// was used up in its time, else no more than was used of it. Part of a bucket's lease leaks, so it
// grows only if most of it was used.
func (l *Lease) Next(now algo.Instant, cost, most int64) int64 {
	size := l.Used
	if l.Left(now) < cost && 2*l.Used >= l.Granted && now.Sub(l.Taken) <= LeaseLife {
		size = 2 * l.Granted
	}
	return min(max(size, cost), max(most, cost))
}

// Renew begins a lease of granted, of which the request that took it uses cost.
func (l *Lease) Renew(now algo.Instant, r algo.Result, granted, cost int64) {
	*l = Lease{Result: r, Granted: granted, Used: cost, Taken: now, Serial: l.Serial + 1}
}
