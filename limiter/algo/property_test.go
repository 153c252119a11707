package algo_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

// RetryAfter equals the result of a search, for every state of small windows, with slow and fast
// clocks.
func TestWindow_RetryAfter_exhaustive(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
		for length := time.Duration(1); length <= 11; length++ {
			for requests := int64(1); requests <= min(6, int64(length)); requests++ {
				m := machine(t, algo.Rate{Algorithm: algorithm, Requests: requests, Window: length, Counts: true})
				for cost := int64(1); cost <= requests; cost++ {
					for count := int64(0); count <= requests+2; count++ {
						for previous := int64(0); previous <= requests+2; previous++ {
							s := algo.State{Window: 100, Count: count, Previous: previous}
							for now := algo.Instant(98 * length); now < algo.Instant(101*length); now++ {
								checkRetry(t, m, s, now, cost)
							}
						}
					}
				}
			}
		}
	}
}

func checkRetry(t *testing.T, m algo.Machine, s algo.State, now algo.Instant, cost int64) {
	t.Helper()
	wait := time.Duration(0)
	for {
		if _, ok := m.Take(s, now.Add(wait), cost); ok {
			break
		}
		wait++
	}
	if got := m.RetryAfter(s, now, cost); got != wait {
		t.Fatalf("%s %+v at %d, cost %d: retry after %d, want %d", m.Fingerprint(), s, now, cost, got, wait)
	}
}

// draw returns a machine and a state. The state is possible at the instant now, or was written by other clocks.
func draw(t *rapid.T) (m algo.Machine, s algo.State, now algo.Instant) {
	now = start.Add(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "now")))
	requests := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, 5_000_000)).Draw(t, "requests")
	window := time.Duration(rapid.OneOf(rapid.Int64Range(int64(time.Second), int64(time.Minute)), rapid.Just(int64(24*time.Hour)),
		rapid.Just(int64(algo.MaxWindow))).Draw(t, "window"))
	rate := algo.Rate{Requests: requests, Window: window, Counts: rapid.Bool().Draw(t, "counts")}
	rate.Algorithm = rapid.SampledFrom([]algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog,
		algo.Concurrent}).Draw(t, "algorithm")
	if rate.Algorithm == algo.SlidingLog || rate.Algorithm == algo.Concurrent {
		rate.Requests = min(requests, 30)
	}
	if rate.Algorithm == algo.FixedWindow && rapid.Bool().Draw(t, "calendar") {
		rate.Window, rate.Calendar = 0, drawCalendar(t)
	}
	if rate.Algorithm == algo.TokenBucket {
		interval := (int64(window) + requests - 1) / requests
		rate.Burst = rapid.Int64Range(1, min(5000, int64(algo.MaxWindow)/interval)).Draw(t, "burst")
	}
	m, err := algo.New(rate)
	if err != nil {
		t.Fatalf("%+v: got error %v, want none", rate, err)
	}
	switch m := m.(type) {
	case *algo.Bucket:
		s.TAT = now.Add(time.Duration(rapid.Int64Range(-2*int64(m.Depth), 2*int64(m.Depth)).Draw(t, "debt")))
	case *algo.Window:
		s.Window = m.Index(now) + rapid.Int64Range(-3, 1).Draw(t, "windows ago")
		s.Count = rapid.Int64Range(0, 2*requests).Draw(t, "count")
		s.Previous = rapid.Int64Range(0, 2*requests).Draw(t, "previous")
	case *algo.Log:
		at := now.Add(-2 * m.Length)
		for range rapid.Int64Range(0, 2*m.Requests).Draw(t, "entries") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(m.Length)/10).Draw(t, "apart")))
			s.Newest = min(at, now.Add(5*time.Second))
			s.Entries += algo.NewEntries(s.Newest)
		}
	case *algo.Slots:
		at := now.Add(-2 * m.Length)
		for range rapid.Int64Range(0, 2*m.Requests).Draw(t, "slots") {
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(m.Length)/10).Draw(t, "apart")))
			s.Entries += algo.NewEntries(min(at, now.Add(5*time.Second)))
		}
	}
	return m, s, now
}

// A request is admitted at RetryAfter and after it, and refused before it.
func TestRetryAfter_exact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s, now := draw(t)
		cost := rapid.Int64Range(1, min(3, m.Capacity())).Draw(t, "cost")
		wait := m.RetryAfter(s, now, cost)
		passes := func(after time.Duration) bool {
			_, ok := m.Take(s, now.Add(after), cost)
			return ok
		}
		if !passes(wait) {
			t.Fatalf("%s %+v: got a refusal after %d, want an admission", m.Fingerprint(), s, wait)
		}
		if wait > 0 && passes(wait-1) {
			t.Fatalf("%s %+v: got an admission 1 ns before %d, want a refusal", m.Fingerprint(), s, wait)
		}
		for range 10 {
			at := time.Duration(rapid.Int64Range(0, 4*int64(wait)+1000).Draw(t, "at"))
			if passes(at) != (at >= wait) {
				t.Fatalf("%s %+v: at %d: got allowed %t, want an admission only after %d", m.Fingerprint(), s, at, passes(at), wait)
			}
		}
	})
}

// The remaining quota can be taken by single requests or by one request of that cost. At ResetAfter,
// Remaining is the capacity again.
func TestRemaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s, now := draw(t)
		left := m.Remaining(s, now)
		if left < 0 || left > m.Capacity() {
			t.Fatalf("%s %+v: got remaining %d, want 0 to %d", m.Fingerprint(), s, left, m.Capacity())
		}
		if _, ok := m.Take(s, now, left); left > 0 && !ok {
			t.Fatalf("%s %+v: a cost of %d, which remains: got a refusal, want an admission", m.Fingerprint(), s, left)
		}
		if _, ok := m.Take(s, now, left+1); ok {
			t.Fatalf("%s %+v: one more than the remaining %d: got an admission, want a refusal", m.Fingerprint(), s, left)
		}
		reset := m.ResetAfter(s, now)
		if got := m.Remaining(s, now.Add(reset)); got != m.Capacity() {
			t.Fatalf("%s %+v: got %d remaining at the reset, want %d", m.Fingerprint(), s, got, m.Capacity())
		}
		if (reset == 0) != (left == m.Capacity()) {
			t.Fatalf("%s %+v: got %d remaining and reset after %s, want a reset after 0 only with %d remaining", m.Fingerprint(), s, left, reset,
				m.Capacity())
		}
		if reset > 0 && m.Remaining(s, now.Add(reset-1)) == m.Capacity() && m.ResetAfter(s, now.Add(reset-1)) != 1 {
			t.Fatalf("%s %+v: got full quota before the reset, want less", m.Fingerprint(), s)
		}
		if idle := m.Idle(s); m.Remaining(s, max(idle, now)) != m.Capacity() {
			t.Fatalf("%s %+v: got less than full quota at Idle, want full quota", m.Fingerprint(), s)
		}
		if m.Idle(s) > max(now, start).Add(m.Horizon()+m.Horizon()/2) {
			t.Fatalf("%s %+v: got Idle later than one and a half horizons, want it earlier", m.Fingerprint(), s)
		}
	})
}

// A charge, a forced charge or a refund of 0 does not change the state. A forced charge on the largest
// debt does not change it either.
func TestCostZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s, now := draw(t)
		taken, _ := m.Take(s, now, 0)
		for what, next := range map[string]algo.State{"charge": taken, "forced charge": m.Force(s, now, 0), "refund": m.Refund(s, algo.State{}, 0,
			time.Second)} {
			if next != s {
				t.Fatalf("%s: a %s of 0: got %+v, want %+v", m.Fingerprint(), what, next, s)
			}
		}
		deepest := m.Force(m.Force(s, now, 1<<60), now, 1<<60)
		if again := m.Force(deepest, now, 1); again != deepest {
			t.Fatalf("%s: a charge on the largest debt: got %+v, want %+v", m.Fingerprint(), again, deepest)
		}
	})
}

// Stores build conditions from Room and PreviousRoom. Both agree with Take.
func TestWindow_Room_exhaustive(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
		w := machine(t, algo.Rate{Algorithm: algorithm, Requests: 6, Window: 7, Counts: true}).(*algo.Window)
		for now := algo.Instant(700); now < 707; now++ {
			for cost := int64(1); cost <= 7; cost++ {
				for previous := range int64(14) {
					room := w.Room(100, now, previous, cost)
					for count := range int64(14) {
						if _, ok := w.Take(algo.State{Window: 100, Count: count, Previous: previous}, now, cost); ok != (count <= room) {
							t.Fatalf("%s at %d: previous %d, count %d, cost %d: got allowed %t, want it allowed up to count %d", w.Fingerprint(), now, previous,
								count, cost, ok, room)
						}
					}
					if _, ok := w.Take(algo.State{Window: 100, Previous: previous}, now, cost); ok != (previous <= w.PreviousRoom(100, now, cost)) {
						t.Fatalf("%s at %d: previous %d, cost %d: got allowed %t, want it allowed up to previous %d", w.Fingerprint(), now, previous, cost,
							ok, w.PreviousRoom(100, now, cost))
					}
				}
			}
		}
	}
}

// Windows before 1970 have the same length as later ones.
func TestWindow_Index(t *testing.T) {
	w := machine(t, algo.Rate{Requests: 6, Window: 7, Counts: true}).(*algo.Window)
	for now, want := range map[algo.Instant]int64{0: 0, 6: 0, 7: 1, -1: -1, -7: -1, -8: -2} {
		if got := w.Index(now); got != want {
			t.Errorf("%d: got window %d, want %d", now, got, want)
		}
	}
}

// In every interval, the admitted costs are within the documented bound of the algorithm.
func TestTake_bound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := algo.Rate{
			Algorithm: rapid.SampledFrom([]algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog,
				algo.Concurrent}).Draw(t, "algorithm"),
			Requests: rapid.Int64Range(1, 20).Draw(t, "requests"), Window: time.Second, Counts: rapid.Bool().Draw(t, "counts"),
		}
		m, err := algo.New(rate)
		if err != nil {
			t.Fatal(err)
		}
		type taken struct {
			at   algo.Instant
			cost int64
		}
		var s algo.State
		var admitted []taken
		now := start
		for range 80 {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(200*time.Millisecond)).Draw(t, "step")))
			cost := rapid.Int64Range(1, 3).Draw(t, "cost")
			var ok bool
			s, ok = m.Take(s, now, cost)
			if ok {
				admitted = append(admitted, taken{now, cost})
			}
		}
		for from := range admitted {
			sum := int64(0)
			for _, a := range admitted[from:] {
				sum += a.cost
				length := float64(a.at.Sub(admitted[from].at)) / float64(time.Second)
				var bound float64
				switch rate.Algorithm {
				// A log is exact: at most Requests in any half-open second.
				case algo.SlidingLog, algo.Concurrent: // holds for slots that are never released
					bound = float64(rate.Requests) * math.Floor(1+length)
				case algo.FixedWindow:
					bound = float64(rate.Requests) * float64(int64(a.at)/1e9-int64(admitted[from].at)/1e9+1)
				default:
					bound = float64(rate.Requests) * (1 + length)
				}
				if float64(sum) > bound+1e-6 {
					t.Fatalf("%s: got %d admitted in %v s, want at most %v", rate.Algorithm, sum, length, bound)
				}
			}
		}
	})
}

// A log charges at most its limit in any window. The instants of the requests can be earlier than those of the charges
// by the difference of the clocks. Counted by these instants, a window has at most twice the limit, and the first steps
// reach nearly that.
func TestLog_instants(t *testing.T) {
	const window, skew, n = time.Minute, 2 * time.Second, 10
	m := &algo.Log{Length: window, Requests: n}
	most := func(instants []algo.Instant) (most int) {
		slices.Sort(instants)
		for i, first := range instants {
			most = max(most, algo.NewEntries(instants...).Until(first.Add(window)-1)-i)
		}
		return most
	}
	worst := 0
	rapid.Check(t, func(t *rapid.T) {
		var s algo.State
		var requests, charges []algo.Instant
		take := func(clock algo.Instant) {
			next, ok := m.Take(s, clock, 1)
			s = next
			if ok {
				requests, charges = append(requests, clock), append(charges, s.Newest)
			}
		}
		for range n {
			take(start)
		}
		take(start.Add(window)) // a fast clock; the others are behind it
		for range n {
			take(start.Add(window - skew))
		}
		now := start.Add(window)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(8*time.Second)).Draw(t, "step")))
			take(now.Add(-time.Duration(rapid.Int64Range(0, int64(skew)).Draw(t, "behind"))))
		}
		if got := most(charges); got > n {
			t.Fatalf("got %d charges in a window, want at most %d", got, n)
		}
		got := most(requests)
		worst = max(worst, got)
		if got > 2*n {
			t.Fatalf("got %d requests in a window, want at most %d", got, 2*n)
		}
	})
	if worst != 2*n-1 {
		t.Errorf("got at most %d requests in a window, want %d", worst, 2*n-1)
	}
}

// FuzzParse searches for a fingerprint that is parsed as another machine. It also searches for a
// stored state that breaks its machine.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"bucket/600ms/20", "sliding/1m0s/100", "fixed/24h0m0s/1", "log/1s/327", "bucket/1ns/1000000000",
		"sliding/2400h/1e9", "bucket/0x1s/+1", "log//"} {
		f.Add(s, int64(start), int64(7), int64(3), int64(1), int64(1), "\x38\xee\x28\x6f\x00\x00\x00\x00\x38\xee\x28\x6f\x00\x00\x00\x01")
	}
	f.Add("sliding/1m0s/100", int64(-1), int64(-1), int64(-1), int64(-1), int64(-1), "")
	f.Fuzz(func(t *testing.T, fingerprint string, at, window, count, previous, cost int64, entries string) {
		m, err := algo.Parse(fingerprint)
		if err != nil {
			return
		}
		again, err := algo.Parse(m.Fingerprint())
		if err != nil || again.Fingerprint() != m.Fingerprint() || again.Capacity() != m.Capacity() {
			t.Fatalf("%q: %s is parsed as %+v, %v, want the same machine", fingerprint, m.Fingerprint(), again, err)
		}
		now := start
		s := algo.State{TAT: algo.Instant(at), Refunds: count, Window: window, Count: count, Previous: previous, Newest: algo.Instant(at),
			Entries: algo.Entries(entries[:len(entries)/8*8])}
		cost = max(0, cost)
		if m.Ahead(s, now) {
			m.Take(s, now, cost)
			m.Force(s, now, min(cost, 50_000))
			if wait := m.RetryAfter(s, now, cost); wait < 0 {
				t.Errorf("%s %+v: got retry after %s, want 0 or more", fingerprint, s, wait)
			}
			_, skew := algo.Clamp(m, s, algo.Skew{}, now)
			s, _ = algo.Clamp(m, s, skew, now.Add(m.Horizon()+5*time.Second))
		}
		m.Take(s, now, cost)
		m.Force(s, now, min(cost, 50_000))
		m.RetryAfter(s, now, cost)
		m.Refund(s, s, cost, time.Second)
		m.Idle(s)
		if left := m.Remaining(s, now); left < 0 {
			t.Errorf("%s %+v: got %d remaining, want 0 or more", fingerprint, s, left)
		}
		if reset := m.ResetAfter(s, now); reset < 0 {
			t.Errorf("%s %+v: got reset after %s, want 0 or more", fingerprint, s, reset)
		}
	})
}
