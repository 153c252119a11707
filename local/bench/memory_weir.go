package main

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
)

// wholePath is the row of Weir from a request line to header fields.
const wholePath = "Weir, whole path"

func memoryWeir() []memoryContender {
	var all []memoryContender
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		all = append(all,
			memoryContender{name: "Weir memstore.Take, " + string(a), ours: true, open: openStore(a)},
			memoryContender{name: "Weir Limiter.Take, " + string(a), ours: true, open: openLimiter(a)})
	}
	return append(all, memoryContender{name: wholePath, open: openWholePath})
}

// callers contains the subjects of the keys and a charge on one limit. A worker copies the charge
// and sets each subject in turn.
type callers struct {
	subjects []limiter.Subject
	charge   limiter.Charge
}

func newCallers(a algo.Algorithm, requests int, window time.Duration, keys []string) (callers, error) {
	limit, err := limiter.NewLimit(limiter.Limit{Name: "bench", Rate: algo.Rate{Algorithm: a, Requests: int64(requests), Window: window}})
	if err != nil {
		return callers{}, err
	}
	c := callers{make([]limiter.Subject, len(keys)), limiter.Charge{Limit: limit, Cost: 1}}
	for i, key := range keys {
		c.subjects[i] = limiter.User(key)
	}
	return c, nil
}

func openStore(a algo.Algorithm) func(int, time.Duration, []string) (func() taker, func(), error) {
	return func(requests int, window time.Duration, keys []string) (func() taker, func(), error) {
		callers, err := newCallers(a, requests, window, keys)
		if err != nil {
			return nil, nil, err
		}
		store, ctx := must(memstore.New(memstore.Options{})), context.Background()
		return func() taker {
			charges, results := []limiter.Charge{callers.charge}, make([]algo.Result, 1)
			return func(i int) (bool, error) {
				charges[0].Subject, results[0] = callers.subjects[i], algo.Result{}
				return store.Take(ctx, algo.InstantOf(time.Now()), charges[0].Subject, charges, results)
			}
		}, nothing, nil
	}
}

func openLimiter(a algo.Algorithm) func(int, time.Duration, []string) (func() taker, func(), error) {
	return func(requests int, window time.Duration, keys []string) (func() taker, func(), error) {
		callers, err := newCallers(a, requests, window, keys)
		if err != nil {
			return nil, nil, err
		}
		l, ctx := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{})), context.Background()
		return func() taker {
			charges := []limiter.Charge{callers.charge}
			return func(i int) (bool, error) {
				charges[0].Subject = callers.subjects[i]
				d, err := l.Take(ctx, time.Now(), charges)
				return d.Allowed, err
			}
		}, nothing, nil
	}
}

// openWholePath decides requests as a server does. It matches the rules with the path and the
// caller, and sets the header fields of the response.
func openWholePath(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error) {
	document, err := json.Marshal(map[string]any{"rules": []any{
		map[string]any{"endpoint": "/api/v1/items/{id}", "method": "GET", "limits": map[string]any{
			"free": map[string]any{"requests": requests, "window": window.String()}}},
		map[string]any{"endpoint": "/api/v1/orders", "limits": map[string]any{
			"free": map[string]any{"requests": requests, "window": window.String()}}},
	}})
	if err != nil {
		return nil, nil, err
	}
	r, err := rules.Parse(document, rules.Options{Version: 1})
	if err != nil {
		return nil, nil, err
	}
	l, ctx := must(limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{})), context.Background()
	return func() taker {
		var charges []limiter.Charge
		header := http.Header{}
		return func(i int) (bool, error) {
			clear(header)
			charges = r.Charges(charges[:0], http.MethodGet, rules.MustParsePath("/api/v1/items/42"), caller.Caller{User: keys[i], Tier: "free"})
			d, err := l.Take(ctx, time.Now(), charges)
			if err == nil {
				httplimit.NewAnswer(d).SetHeader(header)
			}
			return d.Allowed, err
		}
	}, nothing, nil
}
