package algo_test

import (
	"math/rand/v2"
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

// A merged state counts at least as much as each of two histories. Merging a history with itself adds nothing. Sum
// counts both histories together. The n results of Part together count the whole.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const start = algo.Instant(1_770_000_000_000_000_000)
	for _, rate := range []algo.Rate{
		{Algorithm: algo.SlidingWindow, Requests: 40, Window: time.Minute, Counts: true},
		{Algorithm: algo.FixedWindow, Requests: 40, Window: time.Minute},
		{Algorithm: algo.SlidingLog, Requests: 40, Window: time.Minute},
		{Algorithm: algo.Concurrent, Requests: 40, Window: time.Minute},
		{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute, Burst: 40},
		{Algorithm: algo.LeakyBucket, Requests: 60, Window: time.Minute, Burst: 40},
	} {
		m, err := algo.New(rate)
		if err != nil {
			t.Fatal(err)
		}
		const n = 4
		rate.Requests, rate.Burst = rate.Requests/n, rate.Burst/n
		part, err := algo.New(rate)
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			now := start
			var a, b algo.State
			for range random.IntN(60) {
				now = now.Add(time.Duration(random.Int64N(int64(10 * time.Second))))
				a, _ = m.Take(a, now, 1+random.Int64N(3))
				if random.IntN(2) == 0 {
					b, _ = m.Take(b, now, 1+random.Int64N(3))
				}
			}
			merged, sum, portion := algo.Merge(m, a, b), algo.Sum(m, m, a, b, now), algo.Part(m, part, n, a, now)
			if m.Used(merged, now) > max(m.Used(a, now), m.Used(b, now)) && rate.Algorithm != algo.SlidingWindow &&
				rate.Algorithm != algo.Concurrent {
				t.Fatalf("%s: merged counts %d, want at most the larger of %d and %d", rate.Algorithm, m.Used(merged, now), m.Used(a, now),
					m.Used(b, now))
			}
			if same := algo.Merge(m, a, a); same != a {
				t.Fatalf("%s: %+v merged with itself: got %+v, want no change", rate.Algorithm, a, same)
			}
			for range 20 {
				if got, want := m.Used(merged, now), max(m.Used(a, now), m.Used(b, now)); got < want {
					t.Fatalf("%s: merged counts %d, want at least %d", rate.Algorithm, got, want)
				}
				if got, want := m.Used(sum, now), m.Used(a, now)+m.Used(b, now)-1; got < min(want, 2*m.Capacity()) { // each count is rounded up
					t.Fatalf("%s: the sum counts %d, want at least %d", rate.Algorithm, got, want)
				}
				if got, want := n*part.Used(portion, now), m.Used(a, now); got < want-1 {
					t.Fatalf("%s: %d parts count %d, want at least %d", rate.Algorithm, n, got, want)
				}
				now = now.Add(time.Duration(random.Int64N(int64(10 * time.Second))))
			}
		}
	}
}

// A state covers another one that counts less or equally much, whatever share has moved, and no state that counts more.
func TestCovers(t *testing.T) {
	m, err := algo.New(algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute, Regions: algo.Regions{Of: 2}})
	if err != nil {
		t.Fatal(err)
	}
	state := func(count, moved int64) algo.State {
		return algo.State{Window: 7, Count: count}.WithMoved(moved, moved)
	}
	for _, c := range []struct {
		a, b algo.State
		want bool
	}{{state(5, 1), state(5, 3), true}, {state(5, 3), state(4, 1), true}, {state(5, 3), state(6, 1), false}} {
		if got := algo.Covers(m, c.a, c.b); got != c.want {
			t.Errorf("%+v and %+v: got %t, want %t", c.a, c.b, got, c.want)
		}
	}
}
