package algo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// start begins a minute, but not an hour or a day.
var start = algo.InstantOf(time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC))

func machine(tb testing.TB, r algo.Rate) algo.Machine {
	tb.Helper()
	m, err := algo.New(r)
	if err != nil {
		tb.Fatalf("%+v: %v", r, err)
	}
	return m
}

// step is a request of a scenario, with the expected answer and the quota that remains.
type step struct {
	at         time.Duration // instant of the request, as the time since start
	cost       int64
	allowed    bool
	remaining  int64
	retryAfter time.Duration // RetryAfter of a refused request
	resetAfter time.Duration
}

func runSteps(t *testing.T, m algo.Machine, s algo.State, steps []step) {
	t.Helper()
	for i, want := range steps {
		now := start.Add(want.at)
		retry := m.RetryAfter(s, now, want.cost)
		next, allowed := m.Take(s, now, want.cost)
		got := step{want.at, want.cost, allowed, m.Remaining(next, now), retry, m.ResetAfter(next, now)}
		if got != want {
			t.Fatalf("step %d:\n got %+v\nwant %+v", i, got, want)
		}
		if !allowed && next != s {
			t.Fatalf("step %d: state after a refusal: got %+v, want %+v", i, next, s)
		}
		s = next
	}
}

func TestBucket_Take(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	m := machine(t, algo.Rate{Algorithm: algo.TokenBucket, Requests: 100, Window: time.Minute, Burst: 20})
	runSteps(t, m, algo.State{}, []step{
		{0, 1, true, 19, 0, 600 * ms},
		{0, 1, true, 18, 0, 1200 * ms},
		{0, 1, true, 17, 0, 1800 * ms},
		{0, 17, true, 0, 0, 12 * s},         // the burst is used up at one instant
		{0, 1, false, 0, 600 * ms, 12 * s},  // the 21st request is refused
		{0, 3, false, 0, 1800 * ms, 12 * s}, // a higher cost waits longer
		{600*ms - 1, 1, false, 0, 1, 11400*ms + 1},
		{600 * ms, 1, true, 0, 0, 12 * s},              // admitted exactly after RetryAfter
		{600 * ms, 0, true, 0, 0, 12 * s},              // a cost of 0 charges nothing
		{-10 * s, 1, false, 0, 11200 * ms, 22600 * ms}, // a clock that went back finds no quota
		{time.Hour, 20, true, 0, 0, 12 * s},            // an hour does not fill the bucket beyond its burst
		{time.Hour, 21, false, 0, algo.Never, 12 * s},
	})
}

func TestWindow_Take(t *testing.T) {
	const s = time.Second
	t.Run("sliding", func(t *testing.T) {
		m := machine(t, algo.Rate{Requests: 100, Window: time.Minute})
		runSteps(t, m, algo.State{}, []step{
			{0, 80, true, 20, 0, 120 * s},
			// 80*40/60 of the previous minute + 30 of this one = 83.3 requests are used.
			{80 * s, 30, true, 16, 0, 100 * s},
			{80 * s, 17, false, 16, 250034333, 100 * s}, // with this cost, 83.3 + 17 = 100.3 requests would be used
			{80 * s, 16, true, 0, 0, 100 * s},
			// 80*20/60 of the previous minute + 46 + 1 of this one = 73.7 requests are used.
			{100 * s, 1, true, 26, 0, 80 * s},
			{200 * s, 1, true, 99, 0, 100 * s},
			{500 * s, 100, true, 0, 0, 100 * s}, // after a gap, the last used window no longer counts
		})
	})
	t.Run("fixed", func(t *testing.T) {
		m := machine(t, algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute})
		runSteps(t, m, algo.State{}, []step{
			{59 * s, 10, true, 0, 0, 1 * s},
			{59 * s, 1, false, 0, 1 * s, 1 * s},
			{60 * s, 10, true, 0, 0, 60 * s},      // the two windows admit twice the limit within a second
			{57 * s, 1, false, 0, 63 * s, 63 * s}, // a request with a slow clock counts in the newest window
			{60 * s, 11, false, 0, algo.Never, 60 * s},
			{120*s - 1, 1, false, 0, 1, 1},
			{120 * s, 1, true, 9, 0, 60 * s},
		})
	})
}

func TestLog_Take(t *testing.T) {
	const s = time.Second
	m := machine(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 5, Window: 10 * s})
	runSteps(t, m, algo.State{}, []step{
		{0, 2, true, 3, 0, 10 * s},
		{4 * s, 2, true, 1, 0, 10 * s},
		{9 * s, 2, false, 1, 1 * s, 5 * s}, // refused until one of the two entries of instant 0 expires
		{9 * s, 1, true, 0, 0, 10 * s},
		{10*s - 1, 1, false, 0, 1, 9*s + 1},
		{10 * s, 2, true, 0, 0, 10 * s}, // both entries of instant 0 expire at once
		{10 * s, 3, false, 0, 9 * s, 10 * s},
		{8 * s, 1, false, 0, 6 * s, 12 * s}, // the clock is 2 s slow; the log counts as at 10 s and is full until 14 s
		{16 * s, 1, true, 1, 0, 10 * s},
		{15 * s, 1, true, 0, 0, 11 * s}, // the clock is 1 s slow; the entry is added at 16 s, the newest instant
		{19 * s, 1, true, 0, 0, 10 * s},
		{19 * s, 6, false, 0, algo.Never, 10 * s},
		{100 * s, 5, true, 0, 0, 10 * s},
	})
}

// A debt is at most one capacity. It is paid off at the rate of the limit.
func TestForce(t *testing.T) {
	for _, c := range []struct {
		rate       algo.Rate
		costs      []int64
		retryAfter time.Duration
	}{
		{algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: 10 * time.Second}, []int64{4, 4}, 0},
		{algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: 10 * time.Second}, []int64{12}, 3 * time.Second},
		{algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: 10 * time.Second}, []int64{19, 5}, 11 * time.Second},
		{algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: 10 * time.Second}, []int64{1 << 60}, 11 * time.Second},
		{algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: 10 * time.Second}, []int64{12}, 10 * time.Second},
		{algo.Rate{Algorithm: algo.SlidingWindow, Requests: 10, Window: 10 * time.Second, Counts: true}, []int64{1 << 60, 1},
			15500001908 * time.Nanosecond},
		{algo.Rate{Algorithm: algo.SlidingLog, Requests: 10, Window: 10 * time.Second}, []int64{12}, 10 * time.Second},
		{algo.Rate{Algorithm: algo.SlidingLog, Requests: 10, Window: 10 * time.Second}, []int64{1 << 60}, 10 * time.Second},
		{algo.Rate{Algorithm: algo.Concurrent, Requests: 10, Window: 10 * time.Second}, []int64{1 << 60}, 10 * time.Second},
	} {
		m := machine(t, c.rate)
		var s algo.State
		for _, cost := range c.costs {
			s = m.Force(s, start, cost)
		}
		if got := m.RetryAfter(s, start, 1); got != c.retryAfter {
			t.Errorf("%s after forced charges of %v: got retry after %s, want %s", m.Fingerprint(), c.costs, got, c.retryAfter)
		}
		if again := m.Force(s, start, 0); again != s {
			t.Errorf("%s: a forced charge of 0: got %+v, want %+v", m.Fingerprint(), again, s)
		}
		if m.Ahead(s, start) {
			t.Errorf("%s: got Ahead for the largest debt, want false", m.Fingerprint())
		}
		if _, ok := m.Take(s, start, 0); ok != (c.retryAfter == 0) {
			t.Errorf("%s after forced charges of %v: a cost of 0: got allowed %t, want %t", m.Fingerprint(), c.costs, ok, !ok)
		}
	}
}

// 20 concurrent requests leave a leaky bucket of 10 requests a second at intervals of 100 ms. A token
// bucket delays none of them.
func TestBucket_Delay(t *testing.T) {
	b := machine(t, algo.Rate{Algorithm: algo.LeakyBucket, Requests: 10, Window: time.Second, Burst: 20}).(*algo.Bucket)
	var s algo.State
	for i := range 20 {
		var ok bool
		s, ok = b.Take(s, start, 1)
		if !ok {
			t.Fatalf("request %d: got a refusal, want an admission", i+1)
		}
		if got, want := algo.Delay(b, s, start, 1), time.Duration(i)*100*time.Millisecond; got != want {
			t.Errorf("request %d: got a delay of %s, want %s", i+1, got, want)
		}
	}
	if _, ok := b.Take(s, start, 1); ok {
		t.Error("got request 21 admitted, want a refusal because the queue is full")
	}
	s, _ = b.Take(s, start.Add(50*time.Millisecond), 0)
	if s, ok := b.Take(s, start.Add(150*time.Millisecond), 1); !ok || algo.Delay(b, s, start.Add(150*time.Millisecond),
		1) != 1850*time.Millisecond {
		t.Errorf("150 ms later: got a delay of %s, want 1.85s", algo.Delay(b, s, start.Add(150*time.Millisecond), 1))
	}
}

// boundaryAttack sends 100 requests at 0:59 and 100 at 1:00 to a limit of 100 a minute. It returns
// the number of admitted requests.
func boundaryAttack(t *testing.T, algorithm algo.Algorithm) (admitted int) {
	t.Helper()
	m := machine(t, algo.Rate{Algorithm: algorithm, Requests: 100, Window: time.Minute})
	var s algo.State
	for _, at := range []time.Duration{59 * time.Second, 60 * time.Second} {
		for range 100 {
			var ok bool
			s, ok = m.Take(s, start.Add(at), 1)
			if ok {
				admitted++
			}
		}
	}
	return admitted
}

// worst returns the highest number of instants that fall into one interval of the given length.
func worst(instants []algo.Instant, in time.Duration) (most int) {
	from := 0
	for to := range instants {
		for instants[to].Sub(instants[from]) >= in {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		name string
		rate algo.Rate
		want string // fingerprint, or the text of the error
	}{
		{"defaults", algo.Rate{Requests: 20, Window: time.Minute}, "sliding/1m0s/20"},
		{"a small window stores instants", algo.Rate{Requests: 19, Window: time.Minute}, "log/1m0s/19"},
		{"a small window with counts", algo.Rate{Requests: 19, Window: time.Minute, Counts: true}, "sliding/1m0s/19"},
		{"burst defaults to requests", algo.Rate{Algorithm: algo.TokenBucket, Requests: 7, Window: time.Minute}, "bucket/8.571428572s/7"},
		{"no requests", algo.Rate{Window: time.Minute}, "requests: got 0, want 1 to 999999999999999"},
		{"most of a window", algo.Rate{Requests: algo.MaxAmount, Window: time.Second}, "sliding/1s/999999999999999"},
		{"above", algo.Rate{Requests: algo.MaxAmount + 1, Window: time.Hour}, "requests: got 1000000000000000, want 1 to 999999999999999"},
		{"odd window", algo.Rate{Requests: 1e9 + 1, Window: time.Second + 1},
			"window: got 1.000000001s, want whole seconds for more than 1000000000 requests"},
		{"large bucket", algo.Rate{Algorithm: algo.TokenBucket, Requests: 1e9 + 1, Window: time.Hour},
			"requests: got 1000000001, want 1 to 1000000000"},
		{"large in regions", algo.Rate{Requests: 1e9 + 1, Window: time.Hour, Regions: algo.Regions{Of: 2}},
			"requests: got 1000000001, want 1 to 1000000000"},
		{"too fast", algo.Rate{Requests: 1000, Window: 999}, "requests: got 1000, want at most 1000000000 a second"},
		{"no window", algo.Rate{Requests: 1}, "window: got 0s, want more than 0, at most 100 days"},
		{"negative burst", algo.Rate{Algorithm: algo.TokenBucket, Requests: 1, Window: 1, Burst: -1}, "burst: got -1, want 1 to 1000000000"},
		{"slow bucket", algo.Rate{Algorithm: algo.TokenBucket, Requests: 1, Window: 24 * time.Hour, Burst: 101},
			"burst: got 101, want at most 100: a bucket must fill within 100 days"},
		{"burst of a window", algo.Rate{Requests: 1, Window: time.Minute, Burst: 2}, "burst: got 2, want none: sliding_window has no burst"},
		{"log", algo.Rate{Algorithm: algo.SlidingLog, Requests: 327, Window: 5 * time.Second}, "log/5s/327"},
		{"large log", algo.Rate{Algorithm: algo.SlidingLog, Requests: 328, Window: time.Hour},
			"requests: got 328, want at most 327 for a sliding_log, which stores every request; use sliding_window for more"},
		{"concurrent", algo.Rate{Algorithm: algo.Concurrent, Requests: 390, Window: 5 * time.Second}, "slots/5s/390"},
		{"too many slots", algo.Rate{Algorithm: algo.Concurrent, Requests: 391, Window: time.Hour},
			"requests: got 391, want at most 390 for a concurrent limit, because one item holds every request in flight"},
		{"unknown", algo.Rate{Algorithm: "gcra", Requests: 1, Window: time.Minute},
			"algorithm: got gcra, want sliding_window, fixed_window, token_bucket, leaky_bucket or sliding_log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := algo.New(c.rate)
			got := fmt.Sprint(err)
			if err == nil {
				got = m.Fingerprint()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, s := range []string{"bucket/600ms/20", "sliding/1m0s/100", "fixed/24h0m0s/1", "bucket/1ns/1000000000", "log/1m0s/327",
		"sliding/1s/999999999999999", "sliding/2400h0m0s/1", "bucket/2400h0m0s/1", "bucket/1200h0m0s/2"} {
		m, err := algo.Parse(s)
		if err != nil {
			t.Errorf("%s: got error %v, want none", s, err)
		} else if m.Fingerprint() != s {
			t.Errorf("%s: parsed as %s, want the same fingerprint", s, m.Fingerprint())
		}
	}
	for _, s := range []string{"", "bucket", "bucket/600ms", "bucket/600ms/", "bucket/600/20", "bucket/-1s/20", "bucket/1s/0", "spiral/1s/20",
		"log/1m0s/328", "sliding/0s/1", "log/0s/1",
		"bucket/2400h/2", "sliding/2401h/1", "sliding/1s/1000000000000000", "bucket/1ns/1000000001", "sliding/1s/9223372036854775808",
		"bucket/1s/1/1"} {
		if m, err := algo.Parse(s); err == nil {
			t.Errorf("%q: parsed as %s, want an error", s, m.Fingerprint())
		}
	}
}

// Forced charges fill a log to its largest debt as fast as possible, also with slow clocks. The log
// never holds more than MaxDebt entries.
func TestLog_MaxDebt(t *testing.T) {
	for _, window := range []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, time.Hour} {
		l := &algo.Log{Length: window, Requests: 10}
		s, now, largest := algo.State{}, start, 0
		for i := range 400 {
			s = l.Force(s, now.Add(-time.Duration(i%3)*time.Second), 2*l.Requests)
			largest = max(largest, s.Entries.Len())
			now = now.Add(window / 4)
		}
		if int64(largest) != l.MaxDebt() {
			t.Errorf("%s: got %d entries, want %d", window, largest, l.MaxDebt())
		}
	}
}

// After a conversion to a longer window, a log does not count entries that had expired in the shorter
// window. The result is the same if the store has not removed these entries yet.
func TestLog_convert_longer(t *testing.T) {
	short, long := &algo.Log{Length: time.Second, Requests: 3}, &algo.Log{Length: time.Hour, Requests: 3}
	left := algo.State{Newest: start.Add(2 * time.Second), Entries: algo.NewEntries(start, start, start.Add(2*time.Second))}
	if got := algo.Convert(short, long, left, start.Add(2*time.Second)); got != algo.Convert(short, long, short.Trim(left),
		start.Add(2*time.Second)) {
		t.Errorf("got %d entries, want 1", got.Entries.Len())
	}
}
