package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
)

func memoryWeir() []memoryContender {
	return []memoryContender{
		{"Weir Limiter.Take, token_bucket", openLimiter(algo.TokenBucket)},
		{"Weir Limiter.Take, sliding_window", openLimiter(algo.SlidingWindow)},
		{"Weir, whole path", openWholePath},
	}
}

// openLimiter decides like an application that creates its limits itself.
func openLimiter(a algo.Algorithm) openMemory {
	return func(requests int, window time.Duration) (func() taker, func(), error) {
		limit, err := limiter.NewLimit(limiter.Limit{Name: "bench", Rate: algo.Rate{Algorithm: a, Requests: int64(requests), Window: window}})
		if err != nil {
			return nil, nil, err
		}
		l, ctx := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{})), context.Background()
		take := func(id string) (bool, error) {
			d, err := l.Take(ctx, l.Now(), []limiter.Charge{{Subject: limiter.User(id), Limit: limit, Cost: 1}})
			return d.Allowed, err
		}
		return func() taker { return take }, nothing, nil
	}
}

// openWholePath decides requests as a server does. It matches the rules with the path and the
// caller, and sets the header fields of the response.
func openWholePath(requests int, window time.Duration) (worker func() taker, finish func(), err error) {
	document, err := json.Marshal(map[string]any{"rules": []any{
		map[string]any{"endpoint": "/api/v1/items/{id}", "method": "GET", "limits": map[string]any{
			"free": map[string]any{"requests": requests, "window": window.String()}}},
		map[string]any{"endpoint": "/api/v1/orders", "limits": map[string]any{
			"free": map[string]any{"requests": requests, "window": window.String()}}},
	}})
	if err != nil {
		return nil, nil, err
	}
	r, err := rules.Parse(document, rules.Options{Items: dynamostore.Items{}, Version: 1})
	if err != nil {
		return nil, nil, err
	}
	l, ctx := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{})), context.Background()
	return func() taker {
		var charges []limiter.Charge
		header := http.Header{}
		return func(id string) (bool, error) {
			clear(header)
			charges = r.Charges(charges[:0], http.MethodGet, rules.EncodedPath("/api/v1/items/42"), caller.Caller{User: id, Tier: "free"})
			d, err := l.Take(ctx, l.Now(), charges)
			if err == nil {
				httplimit.NewAnswer(d).SetHeader(header)
			}
			return d.Allowed, err
		}
	}, nothing, nil
}
