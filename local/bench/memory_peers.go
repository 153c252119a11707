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

func (c memoryContender) peer() bool { return !c.ours && c.name != wholePath }

func memoryPeers() []memoryContender {
	return []memoryContender{
		{name: "x/time/rate, sync.Map", open: openRate},
		{name: "throttled", open: openThrottled},
		{name: "go-limiter", open: openGoLimiter},
		{name: "ulule/limiter", open: openUlule},
	}
}

func nothing() {}

func openRate(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error) {
	var limiters sync.Map
	every := rate.Every(window / time.Duration(requests))
	return func() taker {
		return func(caller int) (bool, error) {
			key := keys[caller]
			l, ok := limiters.Load(key)
			if !ok {
				l, _ = limiters.LoadOrStore(key, rate.NewLimiter(every, requests))
			}
			return l.(*rate.Limiter).Allow(), nil
		}
	}, nothing, nil
}

func openThrottled(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(requests, window), MaxBurst: requests - 1})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	take := func(caller int) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, keys[caller], 1)
		return !limited, err
	}
	return func() taker { return take }, nothing, nil
}

func openGoLimiter(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error) {
	store, err := golimiter.New(&golimiter.Config{Tokens: uint64(requests), Interval: window})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	take := func(caller int) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, keys[caller])
		return ok, err
	}
	return func() taker { return take }, func() { _ = store.Close(ctx) }, nil
}

func openUlule(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error) {
	l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: window, Limit: int64(requests)})
	ctx := context.Background()
	take := func(caller int) (bool, error) {
		state, err := l.Get(ctx, keys[caller])
		return !state.Reached, err
	}
	return func() taker { return take }, nothing, nil
}
