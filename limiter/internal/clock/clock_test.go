package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// The wall clock is read again after 10 ms, because it may have been set. It is not read earlier.
func TestProcess_period(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Process
		c.Now()
		first := c.read.Load()
		time.Sleep(10*time.Millisecond - 1) // fake clock of synctest
		c.Now()
		if c.read.Load() != first {
			t.Error("got a second reading of the wall clock before 10 ms, want one")
		}
		time.Sleep(time.Nanosecond)
		c.Now()
		if c.read.Load() == first {
			t.Error("got no second reading of the wall clock after 10 ms, want one")
		}
	})
}

// A wall clock that is set back, or slightly ahead, changes nothing. One that is further ahead, as after a suspend, is
// followed.
func TestReading_follow(t *testing.T) {
	noon := time.Unix(1772625600, 0)
	r := reading{sec: noon.Unix()}
	for wall, want := range map[time.Duration]time.Duration{-10 * time.Minute: time.Second, 0: time.Second, 2 * time.Second: time.Second,
		2*time.Second + 1: 2*time.Second + 1, time.Hour: time.Hour} {
		if got := r.follow(noon.Add(wall), time.Second); !got.Equal(noon.Add(want)) {
			t.Errorf("wall clock at %s after a second: got %s, want %s", wall, got.Sub(noon), want)
		}
	}
}
