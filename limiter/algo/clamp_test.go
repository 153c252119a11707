package algo_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

// A state is too far ahead when it exceeds the bound by one nanosecond or one window. After a horizon
// and five seconds without a charge, the state is clamped: it becomes the state of a full charge at that
// time. A state with a higher count keeps that count.
func TestClamp(t *testing.T) {
	bucket := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20})
	window := machine(t, algo.Rate{Requests: 10, Window: time.Second, Counts: true})
	log := machine(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 2, Window: time.Second})
	second := int64(start) / 1e9
	ahead := start.Add(5*time.Second + 1)
	for _, c := range []struct {
		m         algo.Machine
		honest, s algo.State
		further   algo.State // s, charged again by a fast clock
		still     time.Duration
		clamped   algo.State
		first     int64 // requests that the slow clock may still charge before the clamp
	}{
		{
			bucket, algo.State{TAT: start.Add(29 * time.Second)}, algo.State{TAT: start.Add(29*time.Second + 1), Refunds: 3},
			algo.State{TAT: start.Add(30 * time.Second), Refunds: 3},
			29 * time.Second, algo.State{TAT: start.Add(29*time.Second + 12*time.Second), Refunds: 3}, 0,
		},
		{
			window, algo.State{Window: second + 5, Count: 1}, algo.State{Window: second + 6, Count: 3, Previous: 2}, algo.State{Window: second + 7},
			7 * time.Second, algo.State{Window: second + 7, Count: 10}, 5,
		},
		{
			window, algo.State{Window: second + 5, Count: 1}, algo.State{Window: second + 6, Count: 17}, algo.State{Window: second + 7},
			7 * time.Second, algo.State{Window: second + 7, Count: 17}, 0,
		},
		{
			log, algo.State{Newest: start.Add(5 * time.Second)}, algo.State{Newest: ahead, Entries: algo.NewEntries(ahead)},
			algo.State{Newest: ahead + 1, Entries: algo.NewEntries(ahead, ahead+1)},
			11 * time.Second, algo.State{Newest: start.Add(11 * time.Second), Entries: algo.NewEntries(start.Add(11*time.Second),
				start.Add(11*time.Second))}, 1,
		},
		{
			log, algo.State{Newest: start.Add(5 * time.Second)}, algo.State{Newest: ahead, Entries: algo.NewEntries(ahead, ahead, ahead)},
			algo.State{Newest: ahead + 1, Entries: algo.NewEntries(ahead, ahead+1)},
			11 * time.Second, algo.State{Newest: start.Add(11 * time.Second), Entries: algo.NewEntries(start.Add(11*time.Second),
				start.Add(11*time.Second), start.Add(11*time.Second))}, 0,
		},
	} {
		if c.m.Ahead(c.honest, start) || !c.m.Ahead(c.s, start) {
			t.Errorf("%s: got %+v ahead %t, %+v ahead %t; want false, true", c.m.Fingerprint(), c.honest, c.m.Ahead(c.honest, start), c.s,
				c.m.Ahead(c.s, start))
		}
		if spent := c.m.Force(c.s, start, 1); c.m.RetryAfter(spent, start.Add(time.Millisecond), 1) < c.m.RetryAfter(c.s,
			start.Add(time.Millisecond), 1) {
			t.Errorf("%s: after a forced charge by the slow clock: got %+v, want at least the count of %+v", c.m.Fingerprint(), spent, c.s)
		}
		s, skew := algo.Clamp(c.m, c.s, algo.Skew{}, start)
		if s != c.s || skew.Since != start {
			t.Errorf("%s: the first check of %+v: got %+v with skew %+v; want the same state with a skew", c.m.Fingerprint(), c.s, s, skew)
		}
		if left := c.m.Remaining(s, start); left != c.first {
			t.Errorf("%s: got %d requests for the slow clock, want %d", c.m.Fingerprint(), left, c.first)
		}
		due := start.Add(c.still)
		if s, k := algo.Clamp(c.m, c.s, skew, due-1); s != c.s || k != skew {
			t.Errorf("%s: a nanosecond too early: got %+v with skew %+v, want no change", c.m.Fingerprint(), s, k)
		}
		for _, now := range []algo.Instant{due, due.Add(time.Hour)} {
			if s, k := algo.Clamp(c.m, c.s, skew, now); s != c.clamped || k != (algo.Skew{Since: now}) {
				t.Errorf("%s: got %+v with skew %+v, want %+v", c.m.Fingerprint(), s, k, c.clamped)
			}
		}
		if s, k := algo.Clamp(c.m, c.further, skew, due); s != c.further || k.Since != due || k == skew {
			t.Errorf("%s: charged meanwhile: got %+v with skew %+v, want a new skew", c.m.Fingerprint(), s, k)
		}
	}
}

// A state too far ahead refuses a caller. The caller is admitted after the RetryAfter in the answer.
// RetryAfter is bounded: it does not reach to the time of the wrong clock.
func TestClamp_retryAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s, now := draw(t)
		far := now.Add(4*m.Horizon() + time.Duration(rapid.Int64Range(int64(10*time.Second), int64(1000*time.Hour)).Draw(t, "ahead")))
		s = m.Force(s, far, m.Capacity())
		if !m.Ahead(s, now) {
			t.Skip("got a state that is not too far ahead, because its window is not over; want one too far ahead")
		}
		s, skew := algo.Clamp(m, s, algo.Skew{}, now)
		wait := m.RetryAfter(s, now, 1)
		if most := 2*m.Horizon() + 10*time.Second + m.Horizon(); wait <= 0 || wait > most {
			t.Fatalf("%s %+v: got retry after %s, want at most %s", m.Fingerprint(), s, wait, most)
		}
		at := now.Add(wait)
		if m.Ahead(s, at) {
			s, _ = algo.Clamp(m, s, skew, at)
		}
		if _, ok := m.Take(s, at, 1); !ok {
			t.Fatalf("%s: got a refusal after the returned wait of %s in state %+v, want an admission", m.Fingerprint(), wait, s)
		}
	})
}
