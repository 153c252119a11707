package limiter

import (
	"sync/atomic"
	"time"
)

// processClock reads the time of this process from the monotonic clock alone, which takes about half as
// long as time.Now. After wallClockPeriod it reads the wall clock again, so it follows a clock that is
// set. It is safe for concurrent use.
type processClock struct{ read atomic.Pointer[clockReading] }

// clockReading is a reading of both clocks. It also has the Unix time as the numbers sec and nsec: the
// sum of numbers and an age is faster than the sum of a time.Time and an age.
type clockReading struct {
	at        time.Time
	sec, nsec int64
}

const wallClockPeriod = 10 * time.Millisecond

// now returns the time without a monotonic reading.
func (c *processClock) now() time.Time {
	if r := c.read.Load(); r != nil {
		if age := time.Since(r.at); age >= 0 && age < wallClockPeriod {
			return time.Unix(r.sec, r.nsec+int64(age))
		}
	}
	at := time.Now()
	c.read.Store(&clockReading{at, at.Unix(), int64(at.Nanosecond())})
	return at.Round(0)
}
