package cache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/cache"
)

// The value is read once a minute. If its source fails, the value is used for an hour.
func Example() {
	v := cache.New[string](&cache.Policy{Fresh: time.Minute, Stale: time.Hour, Cooldown: 10 * time.Second, Timeout: time.Second})
	down := false
	load := func(context.Context) (string, time.Time, error) {
		fmt.Println("read")
		if down {
			return "", time.Time{}, errors.New("no route")
		}
		return "key", time.Time{}, nil
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, time.Second, time.Minute, 2 * time.Hour} {
		value, err := v.Get(context.Background(), now.Add(after), load)
		fmt.Printf("%q, %v\n", value, err)
		down = true
	}
	// Output:
	// read
	// "key", <nil>
	// "key", <nil>
	// read
	// "key", <nil>
	// read
	// "", no route
}
