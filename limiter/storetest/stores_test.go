package storetest

import (
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/memstore"
)

// TestLimiter tests what a Limiter promises on each store. Run tests the stores alone.
func TestLimiter(t *testing.T) {
	for name, connect := range openers {
		t.Run(name, func(t *testing.T) {
			open := connect(t)
			t.Run("Spread", func(t *testing.T) { testSpread(t, open) })
			t.Run("Rate", func(t *testing.T) { testRate(t, open) })
			t.Run("Pairs", func(t *testing.T) { testPairs(t, open) })
		})
	}
}

// openers are the stores. Redis adds itself in a file of its own.
var openers = map[string]func(*testing.T) opener{"memory": inMemory, "dynamodb": onDynamoDB}

// opener returns the store of one more process. All its stores share their state.
type opener func() limiter.Store

func inMemory(*testing.T) opener {
	store := Must(memstore.New(memstore.Options{}))
	return func() limiter.Store { return store }
}

// onDynamoDB returns stores on a table in memory, which answers as DynamoDB does (TestStore of dynamostore).
func onDynamoDB(*testing.T) opener {
	table := &memtable.Table{}
	return func() limiter.Store {
		return Must(dynamostore.NewBare(table, dynamostore.Options{Table: "t", Namespace: "limiter"}))
	}
}

// testPairs plays histories of random pairs of mechanisms. TestPairs plays all pairs.
func testPairs(t *testing.T, open opener) {
	store := open()
	for seed := range uint64(40) {
		r := mathrand.New(mathrand.NewPCG(seed, 4))
		playPair(t, store, r.IntN(len(mechanisms)), r.IntN(len(mechanisms)), seed)
	}
}

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

// testRate checks that a caller that repeats each refused request after its RetryAfter gets at least 95 % of a sliding
// window, and never more than the limit. It leaves out the first window, in which the caller has the full quota.
func testRate(t *testing.T, open opener) {
	const window, windows = 10 * time.Second, 4
	l := Must(limiter.New(open(), limiter.Options{}))
	begin := start.Time().Truncate(window)
	for _, requests := range []int64{1, 2, 3, 5, algo.MaxExact, algo.MaxExact + 1, 50} {
		charges := []limiter.Charge{{Subject: subject(), Limit: Limit(t, "a", algo.Rate{Requests: requests, Window: window}), Cost: 1}}
		admitted := int64(0)
		for now := begin; now.Before(begin.Add((1 + windows) * window)); {
			d, err := l.Take(ctx, now, charges)
			switch {
			case err != nil:
				t.Fatal(err)
			case !d.Allowed && d.Reason != limiter.ReasonNone:
				t.Fatalf("got reason %s, want a decision", d.Reason)
			case !d.Allowed:
				now = now.Add(d.RetryAfter)
			case now.Sub(begin) >= window:
				admitted++
			}
		}
		if most := windows * requests; admitted > most || admitted*100 < most*95 {
			t.Errorf("%d requests: got %d admitted in %d windows, want %d to %d", requests, admitted, windows, (most*95+99)/100, most)
		}
	}
}
