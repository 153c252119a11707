package dynamostore_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// A Limiter uses a DynamoDB table. The client is created once and does not retry.
func ExampleNew() {
	c, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	client := dynamodb.NewFromConfig(c, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	store, err := dynamostore.New(client, dynamostore.Options{Table: "weir", Namespace: "prod"})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := limiter.New(store, limiter.Options{})
	fmt.Println(l != nil, err)
}
