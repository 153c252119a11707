package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
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
)

func redisContenders() []redisContender {
	return []redisContender{
		{"no-op script", true, openNoop},
		{"redis_rate", false, openRedisRate},
		{"throttled", false, openThrottledRedis},
		{"ulule/limiter", false, openUluleRedis},
		{"Weir Limiter.Take, token_bucket", false, openRedisLimiter(algo.TokenBucket)},
		{"Weir Limiter.Take, sliding_window", false, openRedisLimiter(algo.SlidingWindow)},
	}
}

func openNoop(client *redis.Client, _ []redisLimit) (decideRedis, error) {
	script := redis.NewScript("return 1")
	return func(ctx context.Context, caller string) (bool, error) {
		return true, script.Run(ctx, client, []string{caller}).Err()
	}, nil
}

// eachLimit decides one limit after another, for peers that support only one limit. The keys of
// all limits after the first have a suffix.
func eachLimit(limits []redisLimit, decide func(ctx context.Context, limit int, key string) (bool, error)) decideRedis {
	return func(ctx context.Context, caller string) (bool, error) {
		for i := range limits {
			key := caller
			if i > 0 {
				key += ":" + strconv.Itoa(i)
			}
			if ok, err := decide(ctx, i, key); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

func openRedisRate(client *redis.Client, limits []redisLimit) (decideRedis, error) {
	l := redis_rate.NewLimiter(client)
	return eachLimit(limits, func(ctx context.Context, i int, key string) (bool, error) {
		r, err := l.Allow(ctx, key, redis_rate.Limit{Rate: limits[i].requests, Burst: limits[i].requests, Period: limits[i].window})
		return err == nil && r.Allowed > 0, err
	}), nil
}

func openThrottledRedis(client *redis.Client, limits []redisLimit) (decideRedis, error) {
	store, err := throttledredis.NewCtx(client, "t:")
	if err != nil {
		return nil, err
	}
	limiters := make([]*throttled.GCRARateLimiterCtx, len(limits))
	for i, l := range limits {
		quota := throttled.RateQuota{MaxRate: throttled.PerDuration(l.requests, l.window), MaxBurst: l.requests - 1}
		if limiters[i], err = throttled.NewGCRARateLimiterCtx(store, quota); err != nil {
			return nil, err
		}
	}
	return eachLimit(limits, func(ctx context.Context, i int, key string) (bool, error) {
		limited, _, err := limiters[i].RateLimitCtx(ctx, key, 1)
		return !limited, err
	}), nil
}

func openUluleRedis(client *redis.Client, limits []redisLimit) (decideRedis, error) {
	store, err := ululeredis.NewStoreWithOptions(client, ulule.StoreOptions{Prefix: "u"})
	if err != nil {
		return nil, err
	}
	limiters := make([]*ulule.Limiter, len(limits))
	for i, l := range limits {
		limiters[i] = ulule.New(store, ulule.Rate{Period: l.window, Limit: int64(l.requests)})
	}
	return eachLimit(limits, func(ctx context.Context, i int, key string) (bool, error) {
		state, err := limiters[i].Get(ctx, key)
		return err == nil && !state.Reached, err
	}), nil
}

// silent drops the log of a Limiter, because the benchmark counts the failures.
var silent = slog.New(slog.DiscardHandler)

// weirLimits returns charges without a subject. All limits have the same Horizon, the retention time of
// the longest limit, as package rules sets it.
func weirLimits(a algo.Algorithm, limits []redisLimit) ([]limiter.Charge, error) {
	var charges []limiter.Charge
	for i, l := range limits {
		limit, err := limiter.NewLimit(limiter.Limit{Name: "l" + strconv.Itoa(i), Horizon: 48 * time.Hour, Rate: algo.Rate{Algorithm: a, Requests: int64(l.requests), Window: l.window}})
		if err != nil {
			return nil, err
		}
		charges = append(charges, limiter.Charge{Limit: limit, Cost: 1})
	}
	return charges, nil
}

func charged(template []limiter.Charge, caller string) []limiter.Charge {
	charges, subject := make([]limiter.Charge, len(template)), limiter.User(caller)
	for i, c := range template {
		c.Subject = subject
		charges[i] = c
	}
	return charges
}

func openRedisLimiter(a algo.Algorithm) func(*redis.Client, []redisLimit) (decideRedis, error) {
	return func(client *redis.Client, limits []redisLimit) (decideRedis, error) {
		template, err := weirLimits(a, limits)
		l := must(limiter.New(must(redisstore.NewBare(client, redisstore.Options{Namespace: "l" + string(a[:1])})), limiter.Options{Logger: silent}))
		return func(ctx context.Context, caller string) (bool, error) {
			d, err := l.Take(ctx, time.Now(), charged(template, caller))
			if err == nil && d.Reason != limiter.ReasonNone {
				err = fmt.Errorf("not decided: %s", d.Reason)
			}
			return d.Allowed, err
		}, err
	}
}
