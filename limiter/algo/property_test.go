package algo_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

// RetryAfter against a search, over every state of small windows, behind the clock
// and ahead of it.
func TestWindow_RetryAfter_exhaustive(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
		for length := time.Duration(1); length <= 11; length++ {
			for requests := int64(1); requests <= min(6, int64(length)); requests++ {
				m := machine(t, algo.Rate{Algorithm: algorithm, Requests: requests, Window: length})
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

// draw returns a machine and a state that it can be in at now, or that other clocks
// have left it in.
func draw(t *rapid.T) (m algo.Machine, s algo.State, now algo.Instant) {
	now = start.Add(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "now")))
	requests := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, 5_000_000)).Draw(t, "requests")
	window := time.Duration(rapid.OneOf(rapid.Int64Range(int64(time.Second), int64(time.Minute)), rapid.Just(int64(24*time.Hour)), rapid.Just(int64(algo.MaxWindow))).Draw(t, "window"))
	rate := algo.Rate{Requests: requests, Window: window}
	rate.Algorithm = rapid.SampledFrom([]algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog}).Draw(t, "algorithm")
	if rate.Algorithm == algo.SlidingLog {
		rate.Requests = min(requests, 30)
	}
	if rate.Algorithm == algo.TokenBucket {
		interval := (int64(window) + requests - 1) / requests
		rate.Burst = rapid.Int64Range(1, min(5000, int64(algo.MaxWindow)/interval)).Draw(t, "burst")
	}
	m, err := algo.New(rate)
	if err != nil {
		t.Fatalf("%+v: %v", rate, err)
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
	}
	return m, s, now
}

// At RetryAfter a request passes, before it does not, after it still does.
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
			t.Fatalf("%s %+v: refused after %d", m.Fingerprint(), s, wait)
		}
		if wait > 0 && passes(wait-1) {
			t.Fatalf("%s %+v: passed 1 ns before %d", m.Fingerprint(), s, wait)
		}
		for range 10 {
			at := time.Duration(rapid.Int64Range(0, 4*int64(wait)+1000).Draw(t, "at"))
			if passes(at) != (at >= wait) {
				t.Fatalf("%s %+v: passes at %d: %t, retry after %d", m.Fingerprint(), s, at, passes(at), wait)
			}
		}
	})
}

// Remaining is what can be taken one by one, and in one piece, and ResetAfter is when
// it is the capacity again.
func TestRemaining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s, now := draw(t)
		left := m.Remaining(s, now)
		if left < 0 || left > m.Capacity() {
			t.Fatalf("%s %+v: remaining %d", m.Fingerprint(), s, left)
		}
		if _, ok := m.Take(s, now, left); left > 0 && !ok {
			t.Fatalf("%s %+v: remaining %d refused", m.Fingerprint(), s, left)
		}
		if _, ok := m.Take(s, now, left+1); ok {
			t.Fatalf("%s %+v: one more than remaining %d passed", m.Fingerprint(), s, left)
		}
		reset := m.ResetAfter(s, now)
		if got := m.Remaining(s, now.Add(reset)); got != m.Capacity() {
			t.Fatalf("%s %+v: %d remain at the reset", m.Fingerprint(), s, got)
		}
		if reset > 0 && m.Remaining(s, now.Add(reset-1)) == m.Capacity() && m.ResetAfter(s, now.Add(reset-1)) != 1 {
			t.Fatalf("%s %+v: full before the reset", m.Fingerprint(), s)
		}
		if idle := m.Idle(s); m.Remaining(s, max(idle, now)) != m.Capacity() {
			t.Fatalf("%s %+v: idle, and not full", m.Fingerprint(), s)
		}
		if m.Idle(s) > max(now, start).Add(m.Horizon()+m.Horizon()/2) {
			t.Fatalf("%s %+v: idle later than the horizon", m.Fingerprint(), s)
		}
	})
}

// In any interval no more is admitted than the documented bound.
func TestTake_bound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := algo.Rate{
			Algorithm: rapid.SampledFrom([]algo.Algorithm{algo.TokenBucket, algo.LeakyBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog}).Draw(t, "algorithm"),
			Requests:  rapid.Int64Range(1, 20).Draw(t, "requests"), Window: time.Second,
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
			if s, ok = m.Take(s, now, cost); ok {
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
				case algo.SlidingLog: // exact: in any half-open second
					bound = float64(rate.Requests) * math.Floor(1+length)
				case algo.FixedWindow:
					bound = float64(rate.Requests) * float64(int64(a.at)/1e9-int64(admitted[from].at)/1e9+1)
				default:
					bound = float64(rate.Requests) * (1 + length)
				}
				if float64(sum) > bound+1e-6 {
					t.Fatalf("%s: %d admitted in %v s, at most %v", rate.Algorithm, sum, length, bound)
				}
			}
		}
	})
}

// A changed limit hands out nothing that was used.
func TestConvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, s, now := draw(t)
		to, _, _ := draw(t)
		s, _ = from.Mend(s, now)
		next := algo.Convert(from, to, s, now)
		used := from.Capacity() - from.Remaining(s, now)
		if w, ok := from.(*algo.Window); ok {
			if _, ok := to.(*algo.Window); ok { // yesterday's requests are not in this second
				used = w.At(s, now).Count
			}
		}
		left := to.Remaining(next, now)
		if most := max(0, to.Capacity()-used); left > most {
			t.Fatalf("%s %+v had %d of %d used; converted to %s %+v it has %d of %d left", from.Fingerprint(), s, used, from.Capacity(),
				to.Fingerprint(), next, left, to.Capacity())
		}
		if from.Fingerprint() == to.Fingerprint() && left != from.Remaining(s, now) {
			t.Fatalf("%s %+v: converted to itself it has %d left, had %d", from.Fingerprint(), s, left, from.Remaining(s, now))
		}
	})
}

// A raised rate shortens the wait, and a raised burst ends it.
func TestConvert_raised(t *testing.T) {
	old := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20})
	s, _ := old.Take(algo.State{}, start, 20)
	faster := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Minute, Burst: 20})
	if wait := faster.RetryAfter(algo.Convert(old, faster, s, start), start, 1); wait != 60*time.Millisecond {
		t.Errorf("ten times the rate: retry after %s, want 60ms instead of 600ms", wait)
	}
	both := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 1000, Window: time.Minute, Burst: 100})
	if left := both.Remaining(algo.Convert(old, both, s, start), start); left != 80 {
		t.Errorf("a burst of 100 after 20 used: %d remain, want 80", left)
	}
}

// State too far ahead is mended to one full charge; a nanosecond or a window less and
// it is honest.
func TestMend(t *testing.T) {
	bucket := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20})
	window := machine(t, algo.Rate{Requests: 10, Window: time.Second})
	for _, c := range []struct {
		m    algo.Machine
		s    algo.State
		want algo.State
	}{
		{bucket, algo.State{TAT: start.Add(29 * time.Second)}, algo.State{TAT: start.Add(29 * time.Second)}},
		{bucket, algo.State{TAT: start.Add(29*time.Second + 1), Refunds: 3}, algo.State{TAT: start.Add(12 * time.Second), Refunds: 3}},
		{window, algo.State{Window: int64(start)/1e9 + 5, Count: 1}, algo.State{Window: int64(start)/1e9 + 5, Count: 1}},
		{window, algo.State{Window: int64(start)/1e9 + 6, Count: 1}, algo.State{Window: int64(start) / 1e9, Count: 10}},
	} {
		got, mended := c.m.Mend(c.s, start)
		if got != c.want || mended != (c.s != c.want) {
			t.Errorf("%s %+v: mended %t to %+v, want %+v", c.m.Fingerprint(), c.s, mended, got, c.want)
		}
	}
}
