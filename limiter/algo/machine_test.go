package algo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// kept returns a state of each kind of machine, with room for 4 more requests, and a result without a Machine.
func kept(t *testing.T) []algo.Result {
	t.Helper()
	results := []algo.Result{{}}
	for _, r := range []algo.Rate{
		{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute}, {Requests: 10, Window: time.Minute},
		{Algorithm: algo.SlidingLog, Requests: 10, Window: time.Minute}, {Algorithm: algo.Concurrent, Requests: 10, Window: time.Minute},
	} {
		m, err := algo.New(r)
		if err != nil {
			t.Fatal(err)
		}
		result := algo.Result{Machine: m}
		if !result.Take(start, 6, false) {
			t.Fatalf("%s: got a refusal of 6 of 10 requests", m.Fingerprint())
		}
		results = append(results, result)
	}
	return results
}

// All results are charged, or none: if one machine refuses, at any position, the others keep their states. A forced
// charge is never refused.
func TestTakeAll(t *testing.T) {
	before := kept(t)
	for refuses := range len(before) + 1 {
		for _, force := range []bool{false, true} {
			results := slices.Clone(before)
			taken := algo.TakeAll(start.Add(1), results, func(i int) (int64, bool) {
				if i == refuses {
					return 5, force
				}
				return int64(i % 3), false
			})
			if want := force || refuses == 0 || refuses == len(before); taken != want {
				t.Fatalf("machine %d charges 5 of 4, forced %t: got taken %t, want %t", refuses, force, taken, want)
			}
			for i := range results {
				cost := int64(i % 3)
				if i == refuses {
					cost = 5
				}
				switch {
				case !taken && results[i] != before[i]:
					t.Errorf("machine %d refuses: got a changed result %d: %+v, want %+v", refuses, i, results[i], before[i])
				case taken && before[i].Machine != nil && results[i].Machine.Used(results[i].State, start) != 6+cost:
					t.Errorf("result %d after a charge of %d: got %d requests, want %d", i, cost, results[i].Machine.Used(results[i].State, start), 6+cost)
				}
			}
		}
	}
}

// A settlement refunds a charge of the same limit, or charges up to the max debt.
func TestResult_Settle(t *testing.T) {
	for _, r := range kept(t)[1:] {
		name := r.Machine.Fingerprint()
		corrected := r
		if excess, given := corrected.Settle(start, r, 6, false, 0); excess != 0 || !given || corrected.Machine.Used(corrected.State,
			start) != 0 {
			t.Errorf("%s: refund of 6: got %d used, excess %d, given %t; want nothing used, given", name, corrected.Machine.Used(corrected.State,
				start), excess, given)
		}
		if _, given := corrected.Settle(start, algo.Result{}, 6, false, 0); given {
			t.Errorf("%s: refund of a charge on no machine: got given", name)
		}
		corrected = r
		if excess, given := corrected.Settle(start, r, 16, true, 0); excess != 2 || given || corrected.Machine.Used(corrected.State,
			start) != 20 {
			t.Errorf("%s: charge of 16 with 6 used: got %d used, excess %d, given %t; want 20 and excess 2", name,
				corrected.Machine.Used(corrected.State, start), excess, given)
		}
	}
}

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
