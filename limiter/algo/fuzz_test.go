package algo_test

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

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
