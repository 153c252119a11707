package limiter

import (
	"testing"
	"testing/synctest"
	"time"
)

// The wall clock is read again after 10 ms, because it may have been set. It is not read earlier.
func TestProcessClock_period(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c processClock
		c.now()
		first := c.read.Load()
		time.Sleep(10*time.Millisecond - 1) // fake clock of synctest
		c.now()
		if c.read.Load() != first {
			t.Error("got a second reading of the wall clock before 10 ms, want one")
		}
		time.Sleep(time.Nanosecond)
		c.now()
		if c.read.Load() == first {
			t.Error("got no second reading of the wall clock after 10 ms, want one")
		}
	})
}
