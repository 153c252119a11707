package main

import (
	"context"
	"sync"
	"time"

	golimiter "github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

func memoryPeers() []memoryContender {
	return []memoryContender{
		{"x/time/rate, sync.Map", openRate},
		{"throttled", openThrottled},
		{"go-limiter", openGoLimiter},
		{"ulule/limiter", openUlule},
	}
}

func nothing() {}

func openRate(requests int, window time.Duration) (worker func() taker, finish func(), err error) {
	var limiters sync.Map
	every := rate.Every(window / time.Duration(requests))
	return func() taker {
		return func(id string) (bool, error) {
			l, ok := limiters.Load(id)
			if !ok {
				l, _ = limiters.LoadOrStore(id, rate.NewLimiter(every, requests))
			}
			return l.(*rate.Limiter).Allow(), nil
		}
	}, nothing, nil
}

func openThrottled(requests int, window time.Duration) (worker func() taker, finish func(), err error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(requests, window), MaxBurst: requests - 1})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	take := func(id string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, id, 1)
		return !limited, err
	}
	return func() taker { return take }, nothing, nil
}

func openGoLimiter(requests int, window time.Duration) (worker func() taker, finish func(), err error) {
	store, err := golimiter.New(&golimiter.Config{Tokens: uint64(requests), Interval: window})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	take := func(id string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, id)
		return ok, err
	}
	return func() taker { return take }, func() { _ = store.Close(ctx) }, nil
}

func openUlule(requests int, window time.Duration) (worker func() taker, finish func(), err error) {
	l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: window, Limit: int64(requests)})
	ctx := context.Background()
	take := func(id string) (bool, error) {
		state, err := l.Get(ctx, id)
		return !state.Reached, err
	}
	return func() taker { return take }, nothing, nil
}
