package limiter_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The bound of the denial cache counts a subject with many limits as several subjects.
func TestOptions_Subjects(t *testing.T) {
	// most subjects of a size that fit a cache of 8, by the number of limits of each subject
	for each, most := range map[int]int{1: 8, 4: 8, 100: 2} {
		l := storetest.Must(limiter.New(newRemote(), limiter.Options{Subjects: 6 * 8}))
		limits := make([]*limiter.Limit, each)
		for i := range limits {
			limits[i] = limit(t, limiter.Limit{Name: "l" + strconv.Itoa(i), Rate: algo.Rate{Requests: 1, Window: time.Hour}})
		}
		send := func(caller int, l0 *limiter.Limit) limiter.Decision {
			return take(t, l, limiter.Charge{Subject: limiter.User(strconv.Itoa(caller)), Limit: l0, Cost: 1})
		}
		for caller := range 8 {
			for _, l0 := range limits {
				send(caller, l0)
			}
		}
		cached := 0
		for caller := range 8 {
			for _, l0 := range limits[len(limits)-1:] {
				if d := send(7-caller, l0); d.Allowed || d.RetryAfter == 0 {
					t.Fatalf("got %+v, want a refusal with a wait", d)
				} else if d.FromCache {
					cached++
				}
			}
		}
		if cached > most || most == 8 && cached < 5 {
			t.Errorf("%d limits each: %d of 8 subjects are in the cache, want at most %d", each, cached, most)
		}
	}
}
