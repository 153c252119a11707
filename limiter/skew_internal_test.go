package limiter

import (
	"testing"
	"testing/synctest"
	"time"
)

// Each answer with the server's time makes the estimate more exact, even if the time is in whole seconds. If an
// answer contradicts the estimate, a clock was set, and the answer replaces the estimate.
func TestSkew(t *testing.T) {
	var s Skew
	if _, _, ok := s.ClockSkew(); ok {
		t.Error("got a skew before any answer, want none")
	}
	begun := time.Unix(1_800_000_000, 0)
	const ahead = 300 * time.Millisecond // how far this clock is ahead
	answer := func(at, roundTrip, unit time.Duration) {
		server := begun.Add(at + roundTrip/2)
		s.observe(begun.Add(ahead+at), begun.Add(ahead+at+roundTrip), server.Truncate(unit), server.Truncate(unit).Add(unit))
	}
	expect := func(what string, want, most time.Duration) {
		t.Helper()
		got, uncertainty, ok := s.ClockSkew()
		if !ok || uncertainty > most || (got-want).Abs() > uncertainty {
			t.Errorf("%s: got %s ahead, uncertainty %s, known %t; want %s ahead, uncertainty at most %s", what, got, uncertainty, ok, want, most)
		}
	}
	answer(0, 40*time.Millisecond, time.Microsecond)
	expect("a slow answer", ahead, 21*time.Millisecond)
	answer(time.Second, 2*time.Millisecond, time.Microsecond)
	expect("a quick answer", ahead, 2*time.Millisecond)
	s = Skew{}
	for i := range 50 {
		answer(time.Duration(i)*717*time.Millisecond, 5*time.Millisecond, time.Second)
	}
	expect("dates", ahead, 30*time.Millisecond)
	s.observe(begun, begun.Add(2*time.Millisecond), begun.Add(time.Hour), begun.Add(time.Hour+time.Microsecond))
	expect("a clock that was set", -time.Hour, 2*time.Millisecond)
}

// The uncertainty of the skew grows with time, because the clocks can drift apart.
func TestSkew_drift(t *testing.T) {
	var s Skew
	begun := time.Unix(1_800_000_000, 0)
	s.observe(begun, begun, begun, begun)
	s.observe(begun.Add(1000*time.Second), begun.Add(1000*time.Second), begun.Add(999*time.Second), begun.Add(1001*time.Second))
	if _, uncertainty, _ := s.ClockSkew(); uncertainty != 100*time.Millisecond {
		t.Errorf("after 1,000 s: got an uncertainty of %s, want 100ms", uncertainty)
	}
}

// Begin reports that a request for the server's time is due for the first call, then once a second until
// the estimate is exact, and then twice a minute, whether answers arrive or not.
func TestSkew_Begin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			known time.Duration // uncertainty of the estimate; 0 means no estimate yet
			age   time.Duration
			due   bool
		}{{0, 0, true}, {50 * time.Millisecond, 900 * time.Millisecond, false}, {50 * time.Millisecond, 2 * time.Second, true},
			{time.Millisecond, 20 * time.Second, false}, {time.Millisecond, 40 * time.Second, true}} {
			var s Skew
			if c.known > 0 {
				s = Skew{known: true, high: c.known, at: time.Now().Add(-c.age)}
			}
			if _, due := s.Begin(); due != c.due {
				t.Errorf("%+v: got due %t, want %t", c, due, c.due)
			}
			if _, due := s.Begin(); due {
				t.Errorf("%+v: got a second request due before the answer to the first, want none", c)
			}
			time.Sleep(30 * time.Second) // fake clock of synctest
			if _, due := s.Begin(); !due {
				t.Errorf("%+v: got no request due half a minute later, want one", c)
			}
		}
	})
}
