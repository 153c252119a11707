package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// leaseLife is how long a lease serves at most.
const leaseLife = time.Second

// lease is requests that were taken from the store at once, to be served here. The
// zero value serves none.
type lease struct {
	algo.Result   // what the store held after they were taken
	granted, used int64
	taken         algo.Instant
	serial        int64         // tells one lease of an account from the next
	grace         time.Duration // before a bucket's lease leaks
}

// left returns how many requests the lease still serves at now.
func (l *lease) left(now algo.Instant) int64 {
	age := now.Sub(l.taken)
	if l.granted == l.used || age > leaseLife || -age > leaseLife {
		return 0
	}
	age = max(0, age)
	left := l.granted - l.used
	switch m := l.Machine.(type) {
	case *algo.Bucket: // what has leaked meanwhile would have leaked from the bucket too
		left -= int64((max(0, age-l.grace) + m.Interval - 1) / m.Interval)
	case *algo.Window: // it was charged to this window
		if m.Index(now) > l.State.Window {
			return 0
		}
	}
	return max(0, left)
}

// next returns how many requests to take at now for the next lease, where one request
// costs cost: twice as many if the last one was used up in its time, else no more than
// were used. Of a bucket's lease a part leaks away; it has to use most of it, or it would
// grow by what is wasted.
func (l *lease) next(now algo.Instant, cost, most int64) int64 {
	size := l.used
	if l.left(now) < cost && 2*l.used >= l.granted && now.Sub(l.taken) <= leaseLife {
		size = 2 * l.granted
	}
	return min(max(size, cost), max(most, cost))
}

// renew begins a lease of what a charge took, of which one request uses cost.
func (l *lease) renew(now algo.Instant, r algo.Result, granted, cost int64) {
	*l = lease{Result: r, granted: granted, used: cost, taken: now, serial: l.serial + 1}
}
