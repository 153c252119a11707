package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

func ExampleNew() {
	hourly, err := limiter.NewLimit(limiter.Limit{Name: "hourly", Rate: algo.Rate{Algorithm: algo.FixedWindow, Requests: 5,
		Window: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := memstore.New(memstore.Options{Subjects: 100_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 4, 12, 45, 0, 0, time.UTC)
	d, err := l.Take(context.Background(), now, []limiter.Charge{{Subject: limiter.User("alice"), Limit: hourly, Cost: 5}})
	fmt.Println(d.Allowed, d.Remaining, d.ResetAfter, err)
	// Output: true 0 15m0s <nil>
}
