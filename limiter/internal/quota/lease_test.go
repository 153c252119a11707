package quota

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A bucket's lease leaks at the rate of the bucket, rounded up. After its window or after one second, a
// lease is empty.
func TestLease_left(t *testing.T) {
	const ms = time.Millisecond
	taken := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 59, 500_000_000, time.UTC))
	bucket := &algo.Bucket{Interval: 100 * ms, Depth: time.Second, Burst: 10}
	window := &algo.Window{Length: time.Minute, Requests: 10, Sliding: true}
	day := &algo.Window{Length: 24 * time.Hour, Requests: 10}
	for _, c := range []struct {
		machine algo.Machine
		used    int64
		after   time.Duration
		want    int64
	}{
		{bucket, 0, 0, 10}, {bucket, 3, 0, 7}, {bucket, 3, 1, 6}, {bucket, 3, 100 * ms, 6}, {bucket, 3, 100*ms + 1, 5}, {bucket, 9, 200 * ms, 0},
		{bucket, 3, -500 * ms, 7},
		{window, 3, 0, 7}, {window, 3, 500*ms - 1, 7}, {window, 3, 500 * ms, 0}, {window, 3, -ms, 7},
		{day, 3, time.Second, 7}, {day, 3, time.Second + 1, 0}, {day, 3, -time.Second, 7}, {day, 3, -time.Second - 1, 0}, {day, 10, 0, 0},
	} {
		l := Lease{Result: algo.Result{Machine: c.machine}, Granted: 10, Used: c.used, Taken: taken}
		if w, ok := c.machine.(*algo.Window); ok {
			l.State.Window = w.Index(taken)
		}
		if got := l.Left(taken.Add(c.after)); got != c.want {
			t.Errorf("%s, %d used, after %s: got %d left, want %d", c.machine.Fingerprint(), c.used, c.after, got, c.want)
		}
	}
}

// If a lease was used up within a second, the next lease is twice as large. For a window, the next lease
// is also at most the number of requests in a second at the present rate. A bucket's lease has no such
// bound. If a lease was not used up, the next lease is as large as the part that was used.
func TestLease_next(t *testing.T) {
	taken := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	machine := &algo.Window{Length: time.Hour, Requests: 1000}
	for _, c := range []struct {
		granted, used int64
		after         time.Duration
		cost, want    int64
	}{
		{0, 0, 0, 1, 1}, {0, 0, 0, 7, 7},
		{1, 1, 0, 1, 2}, {8, 8, time.Second, 1, 8}, {8, 8, 800 * time.Millisecond, 1, 10}, {8, 8, 500 * time.Millisecond, 1, 16},
		{8, 8, 100 * time.Millisecond, 1, 16}, {8, 8, time.Second + 1, 1, 8}, {8, 3, 2 * time.Second, 1, 3}, {8, 0, 2 * time.Second, 1, 1},
		{9, 8, 0, 2, 18}, {60, 60, 0, 1, 100}, {60, 60, 0, 150, 150},
	} {
		l := Lease{Result: algo.Result{Machine: machine, State: algo.State{Window: machine.Index(taken)}}, Granted: c.granted, Used: c.used,
			Taken: taken}
		if c.granted == 0 {
			l = Lease{}
		}
		if got := l.Next(taken.Add(c.after), c.cost, 100); got != c.want {
			t.Errorf("%d of %d used, after %s, for a cost of %d: got next %d, want %d", c.used, c.granted, c.after, c.cost, got, c.want)
		}
	}
	// A bucket's lease always doubles: a smaller lease would cause more writes.
	bucket := Lease{Result: algo.Result{Machine: &algo.Bucket{Interval: time.Millisecond, Depth: time.Second, Burst: 1000}}, Granted: 8,
		Used: 8, Taken: taken}
	if got := bucket.Next(taken.Add(800*time.Millisecond), 1, 100); got != 16 {
		t.Errorf("8 of 8 used of a bucket's lease: got next %d, want 16", got)
	}
	// Most of this bucket's lease leaked, so the next one does not grow.
	leaky := Lease{Result: algo.Result{Machine: &algo.Bucket{Interval: time.Millisecond, Depth: time.Second, Burst: 1000}}, Granted: 8,
		Used: 2, Taken: taken}
	if got := leaky.Next(taken.Add(20*time.Millisecond), 1, 100); got != 2 {
		t.Errorf("2 of 8 used, the rest leaked: got next %d, want 2", got)
	}
}
