package algo_test

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

func FuzzBucket_Take(f *testing.F) {
	fuzzTake(f, algo.TokenBucket, func(t *testing.T, m algo.Machine, taken []taken) {
		b := m.(*algo.Bucket)
		intervals(taken, func(sum int64, apart time.Duration) {
			if most := int64((b.Depth + apart) / b.Interval); sum > most {
				t.Errorf("%s: got %d admitted in %s, want at most %d", m.Fingerprint(), sum, apart, most)
			}
		})
	})
}

// Requests that wait for their Delay leave the queue one Interval apart.
func FuzzBucket_Delay(f *testing.F) {
	fuzzTake(f, algo.LeakyBucket, func(t *testing.T, m algo.Machine, taken []taken) {
		b := m.(*algo.Bucket)
		var free algo.Instant // instant at which all earlier requests have left the queue
		for _, k := range taken {
			leaves := k.clock.Add(algo.Delay(b, k.left, k.clock, k.cost))
			if leaves < free {
				t.Errorf("%s: got a departure %s too early, want one Interval after the previous request", m.Fingerprint(), free.Sub(leaves))
			}
			if wait := leaves.Sub(k.clock); wait > b.Depth-b.Increment(k.cost) {
				t.Errorf("%s: got a wait of %s, want at most %s", m.Fingerprint(), wait, b.Depth-b.Increment(k.cost))
			}
			free = leaves.Add(b.Increment(k.cost))
		}
	})
}

func FuzzWindow_Take_sliding(f *testing.F) {
	fuzzTake(f, algo.SlidingWindow, func(t *testing.T, m algo.Machine, taken []taken) {
		w := m.(*algo.Window)
		intervals(taken, func(sum int64, apart time.Duration) {
			if most := float64(w.Requests) * (1 + float64(apart)/float64(w.Length)); float64(sum) > most*(1+1e-12) {
				t.Errorf("%s: got %d admitted in %s, want at most %f", m.Fingerprint(), sum, apart, most)
			}
		})
	})
}

func FuzzWindow_Take_fixed(f *testing.F) {
	fuzzTake(f, algo.FixedWindow, func(t *testing.T, m algo.Machine, taken []taken) {
		counts := map[int64]int64{}
		for _, k := range taken {
			if counts[k.left.Window] += k.cost; counts[k.left.Window] > m.Capacity() {
				t.Errorf("%s: got %d admitted in window %d, want at most %d", m.Fingerprint(), counts[k.left.Window], k.left.Window, m.Capacity())
			}
		}
	})
}

func FuzzLog_Take(f *testing.F) {
	fuzzTake(f, algo.SlidingLog, func(t *testing.T, m algo.Machine, taken []taken) {
		l := m.(*algo.Log)
		intervals(taken, func(sum int64, apart time.Duration) {
			if apart < l.Length && sum > l.Requests {
				t.Errorf("%s: got %d admitted in %s, want at most %d", m.Fingerprint(), sum, apart, l.Requests)
			}
		})
	})
}

type taken struct {
	at    algo.Instant  // instant on a correct clock
	clock algo.Instant  // instant on the caller's clock
	ahead time.Duration // largest error of the caller's clock
	cost  int64
	left  algo.State
}

// intervals calls f for each interval that starts and ends with an admission. The argument sum is the cost of
// all admissions in the interval, and apart is the longest duration of the interval that the callers' clocks
// could show.
func intervals(all []taken, f func(sum int64, apart time.Duration)) {
	for from := range all {
		sum := int64(0)
		for _, k := range all[from:] {
			sum += k.cost
			f(sum, k.at.Sub(all[from].at)+k.ahead)
		}
	}
}

// fuzzTake searches for a limit and a script of requests that break the bound or get a wrong RetryAfter. Each request
// has three bytes. Two bytes are the time since the last request: parts of the window, plus nanoseconds. The third
// byte has the cost, and how far the clock is ahead.
func fuzzTake(f *testing.F, algorithm algo.Algorithm, check func(*testing.T, algo.Machine, []taken)) {
	f.Add(uint16(100), int64(time.Minute), uint16(20), []byte("\x00\x00\x03\x27\x00\x03\x01\x00\x03\x10\x07\x31"))
	f.Add(uint16(7), int64(23), uint16(3), []byte("\x01\x00\x00\x00\x00\x00\x01\x01\x01\x40\x01\x71\x01\x00\x00\x00\x00\x00"))
	f.Add(uint16(1), int64(1), uint16(1), []byte("\x00\x00\x00\x00\x01\x00\x00\x01\x00"))
	f.Add(uint16(999), int64(algo.MaxWindow), uint16(9), []byte("\x28\x00\x03\x28\x00\x03\x28\xff\x03\x27\xff\x03"))
	f.Fuzz(func(t *testing.T, requests uint16, window int64, burst uint16, script []byte) {
		rate := algo.Rate{Algorithm: algorithm, Requests: int64(requests), Window: time.Duration(window), Counts: true}
		if algorithm == algo.TokenBucket || algorithm == algo.LeakyBucket {
			rate.Burst = int64(burst)
		}
		m, err := algo.New(rate)
		if err != nil {
			t.Skip(err)
		}
		check(t, m, replay(t, m, rate.Window, script[:min(len(script), 3*64)]))
	})
}

func replay(t *testing.T, m algo.Machine, window time.Duration, script []byte) (admitted []taken) {
	var s algo.State
	now, fastest := start, window/8
	for ; len(script) >= 3; script = script[3:] {
		now = now.Add(window/40*time.Duration(script[0]%128) + time.Duration(script[1]))
		clock := now.Add(fastest / 15 * time.Duration(script[2]>>4))
		cost := 1 + int64(script[2]&3)
		wait := m.RetryAfter(s, clock, cost)
		next, ok := m.Take(s, clock, cost)
		if ok != (wait == 0) {
			t.Fatalf("%s %+v: got allowed %t and retry after %d, want 0 only for an allowed request", m.Fingerprint(), s, ok, wait)
		}
		if ok {
			s = next
			admitted = append(admitted, taken{now, clock, fastest, cost, s})
			continue
		}
		if wait == algo.Never {
			continue
		}
		if _, early := m.Take(s, clock.Add(wait-1), cost); early {
			t.Fatalf("%s %+v: got an admission 1 ns before %d, want a refusal", m.Fingerprint(), s, wait)
		}
		if _, due := m.Take(s, clock.Add(wait), cost); !due {
			t.Fatalf("%s %+v: got a refusal after %d, want an admission", m.Fingerprint(), s, wait)
		}
	}
	return admitted
}

// FuzzParse searches for a fingerprint that is parsed as another machine. It also searches for a
// stored state that breaks its machine.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"bucket/600ms/20", "sliding/1m0s/100", "fixed/24h0m0s/1", "log/1s/327", "bucket/1ns/1000000000", "sliding/2400h/1e9", "bucket/0x1s/+1", "log//"} {
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
		s := algo.State{TAT: algo.Instant(at), Refunds: count, Window: window, Count: count, Previous: previous, Newest: algo.Instant(at), Entries: algo.Entries(entries[:len(entries)/8*8])}
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
