package limiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// drain makes requests in region i from the instant now on, and returns the number of admitted ones. It continues after the
// pause between two transfers.
func (f *federation) drain(t *testing.T, i int, now time.Time) (admitted int64) {
	t.Helper()
	for k := range 500 {
		if f.take(t, i, now.Add(time.Duration(k)*10*time.Millisecond), 1).Allowed {
			admitted++
		}
	}
	return admitted
}

// listRates are rates with the number of windows after which a count no longer matters.
var listRates = map[algo.Algorithm]time.Duration{algo.FixedWindow: 1, algo.SlidingWindow: 2}

// A region is removed from the list as in infra/OPERATIONS.md: it gets no more requests, its store is deleted, and the list
// changes after one window (sliding: two). While the list changes, the regions together admit at most the limit. They would
// admit more if the removed region still gave its share.
func TestLimiter_Take_regionsRemoved(t *testing.T) {
	for algorithm, windows := range listRates {
		for _, deleted := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.Limit{Rate: algo.Rate{Algorithm: algorithm, Requests: 300, Window: time.Minute}}
				three := newFederation(t, 3, l)
				two := federationOf(t, three.stores[:2], l)
				three.drain(t, 2, noon)
				three.drain(t, 1, noon)
				three.stores[2].cut.Store(deleted)
				now := noon.Add(windows * time.Minute)
				admitted := two.drain(t, 0, now) // the new list is in force in this region first
				admitted += three.drain(t, 1, now) + two.drain(t, 1, now) + two.drain(t, 0, now)
				if deleted && admitted > 300 || !deleted && admitted <= 300 {
					t.Errorf("%s, store deleted %t: got %d admitted, want at most 300, and more only if the store still answers", algorithm, deleted, admitted)
				}
				if now = now.Add(windows * time.Minute); deleted && two.drain(t, 1, now)+two.drain(t, 0, now) != 300 {
					t.Errorf("%s: later, the two regions do not admit 300, want the whole limit", algorithm)
				}
			})
		}
	}
}

// A region is added to the list as in infra/OPERATIONS.md: the old regions get the new list, and the new one starts after
// one window (sliding: two). The regions together admit at most the limit. If the new region starts earlier, they exceed it
// by its share.
func TestLimiter_Take_regionsAdded(t *testing.T) {
	for algorithm, windows := range listRates {
		for wait, most := range map[time.Duration]int64{windows * time.Minute: 300, 0: 400} {
			synctest.Test(t, func(t *testing.T) {
				l := limiter.Limit{Rate: algo.Rate{Algorithm: algorithm, Requests: 300, Window: time.Minute}}
				two := newFederation(t, 2, l)
				three := federationOf(t, append(two.stores[:2:2], newDistant()), l)
				three.stores[2].cut.Store(true) // it does not exist yet
				old := two.drain(t, 0, noon) + three.drain(t, 1, noon) + two.drain(t, 1, noon) + three.drain(t, 0, noon)
				three.stores[2].cut.Store(false)
				now := noon.Add(wait)
				admitted := three.drain(t, 2, now) + three.drain(t, 1, now) + three.drain(t, 0, now)
				if wait == 0 {
					admitted += old
				}
				if old > 300 || admitted != most {
					t.Errorf("%s, wait %s: got %d admitted before and %d after, want at most 300 and %d", algorithm, wait, old, admitted, most)
				}
			})
		}
	}
}
