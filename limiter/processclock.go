package limiter

import (
	"sync/atomic"
	"time"
)

// processClock reads the time of this process from the monotonic clock alone, which takes about half as
// long as time.Now. After wallClockPeriod it reads the wall clock again, so it follows a clock that is
// set. It is safe for concurrent use.
type processClock struct{ read atomic.Pointer[time.Time] }

const wallClockPeriod = 10 * time.Millisecond

func (c *processClock) now() time.Time {
	if read := c.read.Load(); read != nil {
		if age := time.Since(*read); age >= 0 && age < wallClockPeriod {
			return read.Add(age)
		}
	}
	now := time.Now()
	c.read.Store(&now)
	return now
}
