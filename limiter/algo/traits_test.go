package algo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// The answers about an algorithm agree with its machine.
func TestAlgorithm_traits(t *testing.T) {
	all := append(algo.Algorithms(), algo.Concurrent)
	if all[0] != (algo.Rate{}).WithDefaults().Algorithm {
		t.Errorf("got %s first, want the default", all[0])
	}
	for _, a := range all {
		m, err := algo.New(algo.Rate{Algorithm: a, Requests: 100, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		_, bucket := m.(*algo.Bucket)
		w, window := m.(*algo.Window)
		_, burst := algo.New(algo.Rate{Algorithm: a, Requests: 100, Window: time.Minute, Burst: 3})
		if a.HasBurst() != bucket || a.HasBurst() != (burst == nil) || a.HasWindows() != window || a.Resets() != (window && !w.Sliding) ||
			a.TakesSlots() != algo.TakesSlots(m) {
			t.Errorf("%s: got burst %t, windows %t, resets %t, slots %t for a machine %T", a, a.HasBurst(), a.HasWindows(), a.Resets(),
				a.TakesSlots(), m)
		}
		if a.Queues() != (a == algo.LeakyBucket) || (a.NoLease() != "") != slices.Contains([]algo.Algorithm{algo.LeakyBucket, algo.SlidingLog},
			a) {
			t.Errorf("%s: got queue %t, no lease because %q", a, a.Queues(), a.NoLease())
		}
		s, _ := m.Take(algo.State{}, start, 7)
		if got := m.MaxEntries() > 0; got != (s.Entries != "") {
			t.Errorf("%s: got at most %d entries, want some only if a state has entries", a, m.MaxEntries())
		}
	}
}
