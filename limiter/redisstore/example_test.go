package redisstore_test

import (
	"fmt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
)

// A Limiter uses Redis. The store has a circuit breaker, and a decision waits for it at most 50 ms.
func ExampleOpen() {
	store, err := redisstore.Open("redis://127.0.0.1:6379", redisstore.Options{Namespace: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	l, err := limiter.New(store, limiter.Options{})
	fmt.Println(l != nil, err)
	// Output: true <nil>
}
