package limiter_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// drain makes requests in some regions from the instant now on, and returns the number of admitted ones. It continues after
// the pause between two transfers.
func (f *federation) drain(t *testing.T, now time.Time, regions ...int) (admitted int64) {
	t.Helper()
	for _, i := range regions {
		for k := range 500 {
			if f.take(t, i, now.Add(time.Duration(k)*10*time.Millisecond), 1).Allowed {
				admitted++
			}
		}
	}
	return admitted
}

// listRates are rates with the number of windows after which a count no longer matters.
var listRates = map[algo.Algorithm]time.Duration{algo.FixedWindow: 1, algo.SlidingWindow: 2}

// The third region leaves or joins the list in the steps of infra/OPERATIONS.md. Also while some regions have the next list
// already, they together admit at most the limit. In one step, they admit more.
func TestLimiter_Take_regionsListed(t *testing.T) {
	for algorithm, windows := range listRates {
		for _, leaves := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.Limit{Rate: algo.Rate{Algorithm: algorithm, Requests: 300, Window: time.Minute}}
				old := newFederation(t, 3, l)
				next := federationOf(t, old.stores[:2], l)
				l.Rate.Regions.Without = 4
				without := federationOf(t, old.stores, l)
				l.Rate.Regions.Without = 0
				newRegion := []int{}
				if !leaves {
					old, next, newRegion = next, old, []int{2}
				}
				check := func(step string, got int64) {
					t.Helper()
					if got > 300 {
						t.Errorf("%s, leaves %t, %s: got %d admitted, want at most 300", algorithm, leaves, step, got)
					}
				}
				now := noon
				check("the first deployment", old.drain(t, now, 0)+without.drain(t, now, 1)+old.drain(t, now, 0)+without.drain(t, now, 2, 0, 1))
				now = now.Add(windows * time.Minute)
				check("the second deployment", without.drain(t, now, 0)+next.drain(t, now, 1)+without.drain(t, now, 0)+next.drain(t, now, newRegion...)+
					next.drain(t, now, 0, 1))
				now = now.Add(windows * time.Minute)
				if next.drain(t, now, 1, 0) != 300 {
					t.Errorf("%s, leaves %t: later, the regions do not admit 300, want the whole limit", algorithm, leaves)
				}
				now = now.Add(windows * time.Minute)
				if got := old.drain(t, now, 0) + next.drain(t, now, append(newRegion, 1)...); got <= 300 {
					t.Errorf("%s, leaves %t, in one step: got %d admitted, want more than 300, or the steps are not needed", algorithm, leaves, got)
				}
			})
		}
	}
}

// inSteps returns a limit in two regions, in three of which the last has no share, and in all three, or the other way. The
// lists have the numbers 1, 2 and 3.
func inSteps(t *testing.T, leaves bool, l limiter.Limit) (steps [3]*federation) {
	t.Helper()
	two, three := 0, 2
	if leaves {
		two, three = 2, 0
	}
	l.Rate.Regions.List = int64(three + 1)
	steps[three] = newFederation(t, 3, l)
	l.Rate.Regions.List = int64(two + 1)
	steps[two] = federationOf(t, steps[three].stores[:2], l)
	l.Rate.Regions.List, l.Rate.Regions.Without = 2, 4
	steps[1] = federationOf(t, steps[three].stores, l)
	return steps
}

// While environments of two lists overlap, a state is converted once: the regions lose the share that moved until then, and
// not a part of the limit with each request.
func TestLimiter_Take_regionsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := inSteps(t, false, limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 3000, Window: 24 * time.Hour}})
		admitted, now := int64(0), noon
		for i := range 20 {
			now = now.Add(time.Minute)
			if steps[i%2].take(t, 0, now, 100).Allowed {
				admitted += 100
			}
		}
		for range 200 {
			now = now.Add(time.Minute)
			for i := range 2 {
				if steps[1].take(t, i, now, 10).Allowed {
					admitted += 10
				}
			}
		}
		if admitted < 1950 || admitted > 2000 { // the third region has a third of 3000
			t.Errorf("got %d admitted, want 1950 to 2000", admitted)
		}
	})
}

// In random histories, a region joins or leaves while old and new environments of each region overlap. Together they never
// admit more than the limit in a window. No region refuses what fits into its smallest base share of the lists in use, without
// what it gave to others.
func TestLimiter_Take_regionsListHistories(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 11))
			n := 1 + r.Int64N(60)
			steps := inSteps(t, seed%2 == 0, limiter.Limit{Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: n, Window: time.Hour}})
			var step [6]int // of two environments of each region
			now, next, admitted := noon, time.Time{}, map[int64]int64{}
			own, least, most, window, certain := [3]int64{}, 0, 0, int64(0), 0
			for range 300 {
				now = now.Add(time.Duration(r.Int64N(int64(2 * time.Minute))))
				e := r.IntN(len(step))
				if index := now.Unix() / 3600; index != window {
					window, own, least, most = index, [3]int64{}, slices.Min(step[:]), slices.Max(step[:])
					for _, s := range steps[1].stores {
						s.gave.Store(0)
					}
				}
				if r.IntN(15) == 0 && step[e] == slices.Min(step[:]) && step[e] < 2 && (step[e] == 0 || !next.IsZero() && now.After(next)) {
					step[e]++
					most = max(most, step[e])
					if slices.Min(step[:]) == 1 && next.IsZero() {
						next = now.Add(time.Hour)
					}
				}
				if f := steps[step[e]]; e/2 < len(f.stores) {
					cost, base := 1+r.Int64N(1+n/4), n
					for _, list := range steps[least : most+1] {
						if e/2 < len(list.limits) {
							base = min(base, list.limits[e/2].Rate.Regions.Base(n))
						}
					}
					fits := own[e/2]+f.stores[e/2].gave.Load()+cost <= base && now.Unix()%3600 > 3 // without a back-off of the last window
					switch d := f.take(t, e/2, now, cost); {
					case d.Allowed:
						admitted[window] += cost
						own[e/2] += cost
					case fits:
						t.Fatalf("seed %d: region %d, steps %v to %v: got %+v, want cost %d admitted: %d used and %d given of %d", seed, e/2, least, most, d,
							cost, own[e/2], f.stores[e/2].gave.Load(), base)
					}
					if fits {
						certain++
					}
				}
				if got := admitted[window]; got > n {
					t.Fatalf("seed %d: environments at the steps %v admit %d of %d", seed, step, got, n)
				}
			}
			if certain == 0 && n > 10 {
				t.Errorf("seed %d: got no request that certainly fits", seed)
			}
		})
	}
}
