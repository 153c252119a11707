package dynamostore_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// A Limiter uses a DynamoDB table. The store has a circuit breaker, and a decision waits for it at most 100 ms.
func ExampleNew() {
	c, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := dynamostore.New(dynamodb.NewFromConfig(c), dynamostore.Options{Table: "weir", Namespace: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	fmt.Println(l != nil, err)
}
