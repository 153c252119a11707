package quota

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// LeaseLife is how long a process may use a lease.
const LeaseLife = time.Second

// Lease is quota that this process took from the store in advance. The zero value is an empty lease.
type Lease struct {
	algo.Result   // the state of the store after the lease was taken
	Granted, Used int64
	Taken         algo.Instant
	Serial        int64         // differs between the leases of one limit
	Grace         time.Duration // time before a bucket's lease begins to leak
}

// Left returns the quota that remains in the lease at the instant now, in requests.
func (l *Lease) Left(now algo.Instant) int64 {
	age := now.Sub(l.Taken)
	if l.Granted == l.Used || age > LeaseLife || -age > LeaseLife {
		return 0
	}
	age = max(0, age)
	left := l.Granted - l.Used
	if w := algo.WindowOf(l.Machine); w != nil && w.Index(now) > l.State.Window { // it belongs to the window that was charged
		return 0
	}
	if interval := algo.Leak(l.Machine, 1); interval != algo.Never { // unused quota leaks at the rate of the bucket
		left -= int64((max(0, age-l.Grace) + interval - 1) / interval)
	}
	return max(0, left)
}

// Next returns the size of the next lease, for a request of this cost. The bound most applies if it is above
// the cost. If the last lease was used up in LeaseLife, the next lease is twice as large. For a window, the
// next lease is also at most the number of requests in LeaseLife at the present rate: unused quota of a larger
// lease would be lost. If the last lease was not used up, the next lease is as large as the used part. A lease
// counts as used up only if at least half of it was used, because the rest of a bucket's lease can have leaked.
func (l *Lease) Next(now algo.Instant, cost, most int64) int64 {
	size := l.Used
	if age := now.Sub(l.Taken); l.Left(now) < cost && 2*l.Used >= l.Granted && age <= LeaseLife {
		size = 2 * l.Granted
		if !algo.Leaks(l.Machine) && 2*age > LeaseLife {
			size = int64(float64(l.Granted) * float64(LeaseLife) / float64(age))
		}
	}
	return min(max(size, cost), max(most, cost))
}

// Renew replaces the lease by one for the granted number of requests. The request that took the new lease uses
// the part cost of it.
func (l *Lease) Renew(now algo.Instant, r algo.Result, granted, cost int64) {
	*l = Lease{Result: r, Granted: granted, Used: cost, Taken: now, Serial: l.Serial + 1}
}
