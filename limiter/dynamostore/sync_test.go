package dynamostore_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// taking counts the calls of Take.
type taking struct {
	limiter.Store
	takes atomic.Int64
}

func (s *taking) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	s.takes.Add(1)
	return s.Store.Take(ctx, now, subject, charges, results)
}

// A report of a limit with Spread.Sync is one call that uses one write unit, although it charges three counts.
// The bounds of the admissions are the same as with a store in memory.
func TestStore_sync(t *testing.T) {
	store, m := metered(t)
	counted := &taking{Store: store}
	for _, rate := range []algo.Rate{
		{Requests: 200, Window: time.Second},
		{Requests: 200, Window: time.Second, Algorithm: algo.TokenBucket},
		{Requests: 12_000, Window: time.Hour, Algorithm: algo.TokenBucket, Burst: 2000},
	} {
		limit := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "all", Global: true, Rate: rate, Spread: limiter.Spread{Sync: limiter.DefaultSync}}))
		charges, random := []limiter.Charge{{Subject: caller(), Limit: limit, Cost: 1}}, rand.New(rand.NewPCG(1, 2))
		var all []*limiter.Limiter
		for range 10 {
			all = append(all, storetest.Must(limiter.New(counted, limiter.Options{IntN: random.IntN})))
		}
		calls, takes, admitted := m.calls.Load(), counted.takes.Load(), 0
		for i := range 6000 { // 6000 requests in 15 s are 400 a second, twice the limit
			if decide(t, all[random.IntN(len(all))], noon.Add(time.Duration(i)*2500*time.Microsecond), charges...).Allowed {
				admitted++
			}
		}
		calls, takes = m.calls.Load()-calls, counted.takes.Load()-takes
		if calls > takes+takes/50 || takes > 10*2*15+30 {
			t.Errorf("%+v: got %d calls for %d reports, want one each", rate, calls, takes)
		}
		// The limit admits 200 a second for 15 s. The largest result adds 5 % of that, the initial quota and the
		// reserve.
		least, most := 15*200, 15*210+2*200+2*200
		if rate.Burst > 0 {
			least, most = 1900, 2200
		}
		if admitted > most || admitted < least {
			t.Errorf("%+v: got %d admitted in 15 s, want %d to %d", rate, admitted, least, most)
		}
		t.Logf("%s: %d admitted in 15 s, %d reports, %d calls", rate.Algorithm, admitted, takes, calls)
	}
}
