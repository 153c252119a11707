// Package bench measures Weir and other limiters. ../BENCHMARKS.md has the figures and how to run it.
package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	golimiter "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
)

// take decides one request of a caller.
type take func(ctx context.Context, id string) (allowed bool, err error)

// endless is a limit that no benchmark reaches.
const endless = 1_000_000_000

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func limitOf(a algo.Algorithm, name string, requests int64, window time.Duration) *limiter.Limit {
	return must(limiter.NewLimit(limiter.Limit{Name: name, Horizon: 48 * time.Hour, Rate: algo.Rate{Algorithm: a, Requests: requests,
		Window: window}}))
}

var memoryPeers = []struct {
	name string
	open func(requests int, window time.Duration) take
}{
	{"rate", func(requests int, window time.Duration) take {
		var limiters sync.Map
		return func(_ context.Context, id string) (bool, error) {
			l, ok := limiters.Load(id)
			if !ok {
				l, _ = limiters.LoadOrStore(id, rate.NewLimiter(rate.Every(window/time.Duration(requests)), requests))
			}
			return l.(*rate.Limiter).Allow(), nil
		}
	}},
	{"throttled", func(requests int, window time.Duration) take {
		l := must(throttled.NewGCRARateLimiterCtx(must(throttledmem.NewCtx(0)), throttled.RateQuota{MaxRate: throttled.PerDuration(requests,
			window), MaxBurst: requests - 1}))
		return func(ctx context.Context, id string) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, id, 1)
			return !limited, err
		}
	}},
	{"go-limiter", func(requests int, window time.Duration) take {
		store := must(golimiter.New(&golimiter.Config{Tokens: uint64(requests), Interval: window}))
		return func(ctx context.Context, id string) (bool, error) {
			_, _, _, ok, err := store.Take(ctx, id)
			return ok, err
		}
	}},
	{"ulule", func(requests int, window time.Duration) take {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: window, Limit: int64(requests)})
		return func(ctx context.Context, id string) (bool, error) {
			state, err := l.Get(ctx, id)
			return !state.Reached, err
		}
	}},
	{"weir/token_bucket", func(requests int, window time.Duration) take { return weirInMemory(algo.TokenBucket, requests, window) }},
	{"weir/sliding_window", func(requests int, window time.Duration) take {
		return weirInMemory(algo.SlidingWindow, requests, window)
	}},
	{"weir/whole_path", wholePath},
}

func weirInMemory(a algo.Algorithm, requests int, window time.Duration) take {
	limit := limitOf(a, "bench", int64(requests), window)
	l := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{}))
	return func(ctx context.Context, id string) (bool, error) {
		d, err := l.Take(ctx, l.Now(), []limiter.Charge{{Subject: limiter.User(id), Limit: limit, Cost: 1}})
		return d.Allowed, err
	}
}

// wholePath matches the rules with the path and the caller, decides, and sets the header fields.
func wholePath(requests int, window time.Duration) take {
	r := must(rules.Parse(fmt.Appendf(nil, `{"rules": [
		{"endpoint": "/api/v1/items/{id}", "method": "GET", "limits": {"free": {"requests": %d, "window": %q}}},
		{"endpoint": "/api/v1/orders", "limits": {"free": {"requests": %[1]d, "window": %[2]q}}}]}`, requests, window),
		rules.Options{Version: 1}))
	l := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{}))
	return func(ctx context.Context, id string) (bool, error) {
		d, err := l.Take(ctx, l.Now(), r.Charges(nil, http.MethodGet, rules.EncodedPath("/api/v1/items/42"),
			caller.Caller{User: id, Tier: "free"}))
		if err == nil {
			httplimit.NewAnswer(d).SetHeader(http.Header{})
		}
		return d.Allowed, err
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name           string
		keys, requests int
	}{{"one_key", 1, endless}, {"100k_keys", 100_000, endless}, {"refused", 1, 100}} {
		for _, p := range memoryPeers {
			b.Run(c.name+"/"+p.name, func(b *testing.B) {
				decide, ctx := p.open(c.requests, time.Hour), context.Background()
				ids := make([]string, c.keys)
				for i := range ids {
					ids[i] = "caller-" + strconv.Itoa(i)
				}
				for i := 0; b.Loop(); i++ {
					if _, err := decide(ctx, ids[i*7919%len(ids)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// callers is the number of goroutines that decide at the same time.
const callers = 64

var silent = slog.New(slog.DiscardHandler)
