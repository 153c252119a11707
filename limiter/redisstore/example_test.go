package redisstore_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
)

// A Limiter uses Redis. The client is created once and does not retry.
func ExampleNew() {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}, MaxRetries: -1, ContextTimeoutEnabled: true})
	store, err := redisstore.New(client, redisstore.Options{Namespace: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	fmt.Println(l != nil, err)
}
