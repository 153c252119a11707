package bench

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// windows are those of the limits; a peer decides by one limit after another.
var windows = []time.Duration{time.Hour, time.Minute, 24 * time.Hour}

func inTurn(limits int, decide func(ctx context.Context, limit int, key string) (bool, error)) take {
	return func(ctx context.Context, id string) (bool, error) {
		for i := range limits {
			if ok, err := decide(ctx, i, id+strings.Repeat(":", i)); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// redisPeers send one command at a time on each connection; only Weir's store sends the calls of concurrent callers in
// pipelines.
var redisPeers = []struct {
	name string
	open func(c *redis.Client, limits, requests int) take
}{
	{"no-op_script", func(c *redis.Client, _, _ int) take {
		script := redis.NewScript("return 1")
		return func(ctx context.Context, id string) (bool, error) {
			return true, script.Run(ctx, c, []string{id}).Err()
		}
	}},
	{"redis_rate", func(c *redis.Client, limits, requests int) take {
		l := redis_rate.NewLimiter(c)
		return inTurn(limits, func(ctx context.Context, i int, key string) (bool, error) {
			r, err := l.Allow(ctx, key, redis_rate.Limit{Rate: requests, Burst: requests, Period: windows[i]})
			return err == nil && r.Allowed > 0, err
		})
	}},
	{"throttled", func(c *redis.Client, limits, requests int) take {
		store := must(throttledredis.NewCtx(c, "t:"+crand.Text()))
		return inTurn(limits, func(ctx context.Context, i int, key string) (bool, error) {
			l := must(throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(requests, windows[i]),
				MaxBurst: requests - 1}))
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return !limited, err
		})
	}},
	{"ulule", func(c *redis.Client, limits, requests int) take {
		store := must(ululeredis.NewStoreWithOptions(c, ulule.StoreOptions{Prefix: "u"}))
		return inTurn(limits, func(ctx context.Context, i int, key string) (bool, error) {
			state, err := ulule.New(store, ulule.Rate{Period: windows[i], Limit: int64(requests)}).Get(ctx, key)
			return err == nil && !state.Reached, err
		})
	}},
	{"weir/token_bucket", func(c *redis.Client, limits, requests int) take {
		return weirOnRedis(c, algo.TokenBucket, limits, requests)
	}},
	{"weir/sliding_window", func(c *redis.Client, limits, requests int) take {
		return weirOnRedis(c, algo.SlidingWindow, limits, requests)
	}},
}

func weirOnRedis(c *redis.Client, a algo.Algorithm, limits, requests int) take {
	l := must(limiter.New(must(redisstore.NewBare(c, redisstore.Options{Namespace: "bench" + crand.Text()})), limiter.Options{Logger: silent}))
	var all []*limiter.Limit
	for i := range limits {
		all = append(all, limitOf(a, "l"+strconv.Itoa(i), int64(requests), windows[i]))
	}
	return func(ctx context.Context, id string) (bool, error) {
		charges := make([]limiter.Charge, 0, 3)
		for _, limit := range all {
			charges = append(charges, limiter.Charge{Subject: limiter.User(id), Limit: limit, Cost: 1})
		}
		d, err := l.Take(ctx, time.Now(), charges)
		if err == nil && d.Reason != limiter.ReasonNone {
			err = fmt.Errorf("not decided: %s", d.Reason)
		}
		return d.Allowed, err
	}
}

func client(b *testing.B) *redis.Client {
	b.Helper()
	options := must(redis.ParseURL(storetest.Server(b, "redis", "REDIS_URL")))
	options.PoolSize, options.MaxRetries, options.ContextTimeoutEnabled = callers, -1, true
	c := redis.NewClient(options)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// together decides with concurrent callers, and reports decisions a second.
func together(b *testing.B, keys int, decide take) {
	b.Helper()
	run := "bench-" + crand.Text()
	b.SetParallelism(max(1, callers/2))
	var failed atomic.Int64
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := decide(context.Background(), run+strconv.Itoa(rand.IntN(keys))); err != nil {
				failed.Add(1)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(failed.Load())/float64(b.N), "failed/decision")
}

func BenchmarkRedis(b *testing.B) {
	for _, s := range []struct {
		name                   string
		keys, limits, requests int
	}{{"1_limit", 10_000, 1, endless}, {"3_limits", 10_000, 3, endless}, {"one_key", 1, 1, endless}, {"refused", 1, 1, 100}} {
		for _, p := range redisPeers {
			b.Run(s.name+"/"+p.name, func(b *testing.B) { together(b, s.keys, p.open(client(b), s.limits, s.requests)) })
		}
	}
}

// One key in one process, with leases of up to 100,000, and without.
func BenchmarkRedisLease(b *testing.B) {
	for _, lease := range []int64{100_000, 0} {
		for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow} {
			b.Run(fmt.Sprintf("%s/lease_%d", a, lease), func(b *testing.B) {
				limit := must(limiter.NewLimit(limiter.Limit{Name: "hot", Rate: algo.Rate{Algorithm: a, Requests: endless, Window: time.Minute},
					Spread: limiter.Spread{Lease: lease}}))
				l := must(limiter.New(must(redisstore.NewBare(client(b), redisstore.Options{Namespace: "bench" + crand.Text()})),
					limiter.Options{Logger: silent}))
				together(b, 1, func(ctx context.Context, id string) (bool, error) {
					d, err := l.Take(ctx, time.Now(), []limiter.Charge{{Subject: limiter.User(id), Limit: limit, Cost: 1}})
					return d.Allowed, err
				})
			})
		}
	}
}
