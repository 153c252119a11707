package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// For a Local store, Now returns the right time, both when it reads the wall clock and when it does not.
func TestLimiter_Now_local(t *testing.T) {
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	_ = l.Now() // reads the real clock, outside synctest
	synctest.Test(t, func(t *testing.T) {
		// The last pause ends in another second.
		for _, pause := range []time.Duration{0, time.Nanosecond, time.Millisecond, 9 * time.Millisecond, time.Hour, time.Millisecond,
			985 * time.Millisecond, 5 * time.Millisecond} {
			time.Sleep(pause)
			if got, want := l.Now(), time.Now(); !got.Equal(want) {
				t.Errorf("after %s: got %s, want %s", pause, got, want)
			}
		}
	})
}
