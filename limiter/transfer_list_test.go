package limiter_test

import (
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
