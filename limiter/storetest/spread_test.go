package storetest

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// testSpread charges limits with and without a Spread from two processes at once. The processes must admit exactly the limit.
func testSpread(t *testing.T, open opener) {
	const capacity = 200
	for _, c := range []struct {
		name   string
		spread limiter.Spread
	}{
		{"lease", limiter.Spread{Lease: 20}},
		{"shards", limiter.Spread{Shards: 4}},
		{"none", limiter.Spread{}},
	} {
		for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
			t.Run(fmt.Sprintf("%s/%s", c.name, algorithm), func(t *testing.T) {
				limit := Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: capacity,
					Window: 24 * time.Hour}, Spread: c.spread, Version: 1}))
				charges := []limiter.Charge{{Subject: subject(), Limit: limit, Cost: 1}}
				var admitted, failed atomic.Int64
				together(t, 2, func(int) {
					// Without denial caches, each request calls the store, even after the other process's lease or
					// shard refused a request.
					l := Must(limiter.New(open(), limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
					for refused := 0; refused < 40; {
						d, err := l.Take(ctx, start.Time(), charges)
						switch {
						case err != nil:
							t.Error(err)
							return
						case d.Reason != limiter.ReasonNone:
							failed.Add(1) // the store did not decide, so the request is not in the expected number
						case d.Allowed:
							admitted.Add(1)
						default:
							refused++
						}
					}
				})
				if n := admitted.Load(); n < capacity-failed.Load() || n > capacity {
					t.Errorf("admitted: got %d, want %d (%d decisions failed)", n, capacity, failed.Load())
				}
			})
		}
	}
}
