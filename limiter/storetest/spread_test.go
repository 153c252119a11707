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

// testSpread charges limits with a Spread from two processes at once. The processes must admit the
// documented numbers.
func testSpread(t *testing.T, open opener) {
	const capacity, interval, perInterval = 200, 100 * time.Millisecond, 20
	for _, c := range []struct {
		name        string
		spread      limiter.Spread
		least, most int64
	}{
		{"lease", limiter.Spread{Lease: 20}, capacity, capacity},
		{"shards", limiter.Spread{Shards: 4}, capacity, capacity},
		{"sync", limiter.Spread{Sync: interval}, capacity, capacity + 2*perInterval},
		{"none", limiter.Spread{}, capacity, capacity},
	} {
		for _, algorithm := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
			t.Run(fmt.Sprintf("%s/%s", c.name, algorithm), func(t *testing.T) {
				limit := Must(limiter.NewLimit(limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: algorithm, Requests: capacity, Window: 24 * time.Hour}, Spread: c.spread, Version: 1}))
				charges := []limiter.Charge{{Subject: subject(), Limit: limit, Cost: 1}}
				var admitted, failed atomic.Int64
				together(t, 2, func(int) {
					// Without denial caches, each request calls the store, even after the other process's lease or
					// shard refused a request.
					l := Must(limiter.New(open(), limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
					now := start.Time()
					for refused := 0; refused < 2*perInterval; {
						if c.spread.Sync > 0 { // the clock advances with each request, so that counters synchronize
							now = now.Add(interval / perInterval)
						}
						d, err := l.Take(ctx, now, charges)
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
				if n := admitted.Load(); n < c.least-failed.Load() || n > c.most {
					t.Errorf("admitted: got %d, want %d to %d (%d decisions failed)", n, c.least, c.most, failed.Load())
				}
			})
		}
	}
}
