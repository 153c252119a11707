// Package clock has the clock of a process.
package clock

import (
	"sync/atomic"
	"time"
)

// Process reads the time of this process from the monotonic clock alone, which takes about half as
// long as time.Now, and never runs back: in a store of this process, a wall clock that is set back would make every state
// lie in the future. After wallPeriod it reads the wall clock again, and follows it only if it is ahead by more than
// wallAhead, as after a suspend. It is safe for concurrent use.
type Process struct{ read atomic.Pointer[reading] }

// reading is a reading of both clocks. It has the Unix time as two numbers, sec and nsec, because adding an age
// to numbers is faster than to a time.Time.
type reading struct {
	at        time.Time
	sec, nsec int64
}

const (
	wallPeriod = 10 * time.Millisecond
	wallAhead  = time.Second
)

// Now returns the time without a monotonic reading.
func (c *Process) Now() time.Time {
	if r := c.read.Load(); r != nil {
		if age := time.Since(r.at); age >= 0 && age < wallPeriod {
			return time.Unix(r.sec, r.nsec+int64(age))
		}
	}
	at := time.Now()
	return c.When(at, at)
}

// When returns the time at which time.Now returned at, and the wall clock, or a corrected one, shows wall.
func (c *Process) When(at, wall time.Time) time.Time {
	for {
		now, r := wall.Round(0), c.read.Load()
		if r != nil {
			now = r.follow(now, at.Sub(r.at))
		}
		if c.read.CompareAndSwap(r, &reading{at, now.Unix(), int64(now.Nanosecond())}) {
			return now
		}
	}
}

// follow returns the time that follows r after the monotonic clock has elapsed, when the wall clock shows wall.
func (r *reading) follow(wall time.Time, elapsed time.Duration) time.Time {
	now := time.Unix(r.sec, r.nsec).Add(elapsed)
	if wall.Sub(now) > wallAhead {
		return wall
	}
	return now
}
