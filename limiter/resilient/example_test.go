package resilient_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
)

// After five failures in a row, the breaker opens, and decisions make no store call.
func Example() {
	down := newFailing() // such as redisstore.NewBare(client, …)
	down.failWith(limiter.ErrUnavailable)
	store, err := resilient.New(down, resilient.Options{})
	if err != nil {
		panic(err)
	}
	limits, err := limiter.New(store, limiter.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	login, err := limiter.NewLimit(limiter.Limit{Name: "login", Rate: algo.Rate{Requests: 5, Window: time.Minute},
		OnError: limiter.OnErrorDeny})
	if err != nil {
		panic(err)
	}
	for range 7 {
		d, err := limits.Take(context.Background(), time.Now(), []limiter.Charge{{Subject: limiter.User("42"), Limit: login, Cost: 1}})
		if err != nil {
			panic(err)
		}
		fmt.Println(d.Allowed, d.Failed, d.Reason, d.StoreCalls)
	}
	// Output:
	// false true store_unavailable 1
	// false true store_unavailable 1
	// false true store_unavailable 1
	// false true store_unavailable 1
	// false true store_unavailable 1
	// false true store_breaker 0
	// false true store_breaker 0
}
