package limiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// A request is charged on a limit of its caller and on a limit of all callers.
func ExampleLimiter_Take() {
	mine, err := limiter.NewLimit(limiter.Limit{Name: "mine", Rate: algo.Rate{Algorithm: algo.TokenBucket, Requests: 60, Window: time.Minute,
		Burst: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := limiter.NewLimit(limiter.Limit{Name: "all", Global: true, Rate: algo.Rate{Requests: 1000, Window: time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := []limiter.Charge{
		{Subject: limiter.User("alice"), Limit: mine, Cost: 1},
		{Subject: limiter.Global(), Limit: all, Cost: 1},
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) // time.Now(), read once for each request
	for range 3 {
		d, err := l.Take(context.Background(), now, charges)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Limit.Name, d.Remaining, d.RetryAfter)
	}
	// Output:
	// true mine 1 0s
	// true mine 0 0s
	// false mine 0 1s
}

// A caller has five attempts to log in. Successful attempts are refunded.
func ExampleLimiter_TakeRefundable() {
	tries, err := limiter.NewLimit(limiter.Limit{Name: "login", Rate: algo.Rate{Algorithm: algo.SlidingLog, Requests: 5, Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := []limiter.Charge{{Subject: limiter.Custom("login", "alice"), Limit: tries, Cost: 1}}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for i := range 7 {
		d, receipt, err := l.TakeRefundable(context.Background(), now, charges)
		if err != nil {
			fmt.Println(err)
			return
		}
		if i < 2 { // the password was right
			receipt.Refund(context.Background(), now)
		}
		fmt.Print(d.Allowed, " ")
	}
	d, err := l.Take(context.Background(), now, charges)
	fmt.Println(d.Allowed, d.RetryAfter, err)
	// Output:
	// true true true true true true true false 1h0m0s <nil>
}

// A limit of all callers has more requests than one DynamoDB item can count. An environment leases up to
// 500 requests at once.
func ExampleSpread() {
	l, err := limiter.NewLimit(limiter.Limit{
		Name: "everybody", Global: true, Rate: algo.Rate{Requests: 50_000, Window: time.Second}, Spread: limiter.Spread{Lease: 500},
	})
	fmt.Println(l.Spread.Lease, err)
	// Output:
	// 500 <nil>
}
