package algo_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

// A changed limit does not return used quota.
func TestConvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, s, now := draw(t)
		to, _, _ := draw(t)
		next := algo.Convert(from, to, s, now)
		used := from.Capacity() - from.Remaining(s, now)
		if w, ok := from.(*algo.Window); ok {
			if _, ok := to.(*algo.Window); ok { // a shorter new window can begin after all requests of the old window
				used = w.At(s, now).Count
			}
		}
		left := to.Remaining(next, now)
		if most := max(0, to.Capacity()-used); left > most {
			t.Fatalf("%s %+v, %d of %d used, converted to %s %+v: got %d of %d left, want at most %d", from.Fingerprint(), s, used, from.Capacity(),
				to.Fingerprint(), next, left, to.Capacity(), most)
		}
		if from.Fingerprint() == to.Fingerprint() && left != from.Remaining(s, now) {
			t.Fatalf("%s %+v: converted to an equal limit: got %d left, want %d", from.Fingerprint(), s, left, from.Remaining(s, now))
		}
	})
}

// A bucket forgets usage above its burst. After a change back, the window counts only the rest, and a refund still
// reduces it by the whole charge.
func TestConvert_forgets(t *testing.T) {
	window := machine(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 12, Window: time.Minute})
	bucket := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 8, Window: time.Minute})
	charged, _ := window.Take(algo.State{}, start, 12)
	s := algo.Convert(bucket, window, algo.Convert(window, bucket, charged, start), start)
	if used, left := window.Used(s, start), window.Used(window.Refund(s, charged, 6, 0), start); used != 8 || left != 2 {
		t.Errorf("12 used: got %d after the change back and %d after a refund of 6, want 8 and 2", used, left)
	}
}

// A change of the window length converts the counts. If an old window overlaps a new window, the whole
// count of the old window counts in the new window. An old window that only touches a new window does
// not count there.
func TestConvert_windows(t *testing.T) {
	const s = algo.Instant(time.Second)
	at := func(seconds, length algo.Instant) int64 { return int64((start + seconds*s) / (length * s)) }
	for _, c := range []struct {
		name     string
		from, to time.Duration
		old      algo.State
		now      algo.Instant
		want     algo.State
	}{
		{"the same length", time.Minute, time.Minute, algo.State{Window: at(0, 60), Count: 3, Previous: 4}, start + 200*s,
			algo.State{Window: at(0, 60), Count: 3, Previous: 4}},
		{"never charged", time.Minute, time.Hour, algo.State{}, start, algo.State{}},
		{"shorter, inside", time.Minute, 10 * time.Second, algo.State{Window: at(0, 60), Count: 3, Previous: 4}, start + 30*s,
			algo.State{Window: at(30, 10), Count: 3, Previous: 3}},
		{"shorter, at its end", time.Minute, 10 * time.Second, algo.State{Window: at(0, 60), Count: 3, Previous: 4}, start + 60*s,
			algo.State{Window: at(60, 10), Previous: 3}},
		{"shorter, by a slow clock", time.Minute, 10 * time.Second, algo.State{Window: at(60, 60), Count: 3, Previous: 4}, start + 59*s,
			algo.State{Window: at(60, 10), Count: 3, Previous: 4}},
		{"longer, inside", 10 * time.Second, time.Minute, algo.State{Window: at(30, 10), Count: 3, Previous: 4}, start + 35*s,
			algo.State{Window: at(0, 60), Count: 7}},
		{"longer, one later", 10 * time.Second, time.Minute, algo.State{Window: at(50, 10), Count: 3, Previous: 4}, start + 60*s,
			algo.State{Window: at(60, 60), Previous: 7}},
		{"across", 7 * time.Second, 5 * time.Second, algo.State{Window: 10, Count: 3, Previous: 4}, 71 * s, algo.State{Window: 14, Count: 3,
			Previous: 4}},
		{"across, both", 7 * time.Second, 20 * time.Second, algo.State{Window: 3, Count: 3, Previous: 4}, 21 * s, algo.State{Window: 1, Count: 7,
			Previous: 4}},
	} {
		from, to := machine(t, algo.Rate{Requests: 10, Window: c.from, Counts: true}), machine(t, algo.Rate{Requests: 20, Window: c.to})
		if got := algo.Convert(from, to, c.old, c.now); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A debt that does not fit 64 bits in the new limit becomes the largest debt, never 0.
func TestConvert_overflow(t *testing.T) {
	for _, c := range []struct {
		requests int64 // requests a second in the old limit
		debt     time.Duration
		interval time.Duration // interval in the new limit
	}{
		{1e9, 1 << 32, 1 << 32},                // the debt in the new limit is 2^64 ns
		{5e8, 6_700_417 * 641, 4_294_967_295},  // (2^64-1) / 2 ns, 0.5 more than the largest int64
		{1e9, 1 << 50, time.Duration(1 << 52)}, // 2^102 ns, far more than the largest int64
	} {
		old := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: c.requests, Window: time.Second})
		for of := range int64(2) { // with a threshold, the largest debt is the max debt
			b := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 1, Window: c.interval, Of: of}).(*algo.Bucket)
			got, want := algo.Convert(old, b, algo.State{TAT: start.Add(c.debt)}, start), time.Duration(1+of)*b.Depth
			if got.TAT != start.Add(want) {
				t.Errorf("%+v, of %d: got TAT %s ahead, want %s", c, of, got.TAT.Sub(start), want)
			}
		}
	}
}

// A change of the number across the border of algo.MaxExact keeps what was used, in both directions.
func TestConvert_border(t *testing.T) {
	small := machine(t, algo.Rate{Requests: algo.MaxExact, Window: time.Minute})
	large := machine(t, algo.Rate{Requests: algo.MaxExact + 1, Window: time.Minute})
	for _, c := range []struct{ from, to algo.Machine }{{small, large}, {large, small}} {
		var s algo.State
		for i := range 12 {
			s, _ = c.from.Take(s, start.Add(time.Duration(i)*4*time.Second), 1)
		}
		now := start.Add(50 * time.Second)
		next := algo.Convert(c.from, c.to, s, now)
		if got := c.to.Used(next, now); got != 12 {
			t.Errorf("%s to %s: got %d used, want 12", c.from.Fingerprint(), c.to.Fingerprint(), got)
		}
		if back := algo.Convert(c.to, c.from, next, now); c.from.Used(back, now) != 12 {
			t.Errorf("%s to %s and back: got %d used, want 12", c.from.Fingerprint(), c.to.Fingerprint(), c.from.Used(back, now))
		}
		if used := c.to.Used(next, now.Add(2*time.Minute)); used != 0 {
			t.Errorf("%s to %s: got %d used after two windows, want 0", c.from.Fingerprint(), c.to.Fingerprint(), used)
		}
	}
}
