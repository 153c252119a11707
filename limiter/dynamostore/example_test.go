package dynamostore_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/resilient"
)

// A Limiter uses a DynamoDB table. The client is created once, does not retry, and loses no answer.
func ExampleNew() {
	c, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	client := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, resilient.HTTPClient{Doer: o.HTTPClient}
	})
	store, err := dynamostore.New(client, dynamostore.Options{Table: "weir", Namespace: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	fmt.Println(l != nil, err)
}
