package algo_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

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
