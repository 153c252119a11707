// Command handler-events runs the API and enforces its limits.
// It sends decision events. The limits are in DynamoDB or Redis.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() {
	boot.Start(func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }, boot.Clients{DynamoDB: dynamostore.Open, Redis: rediscache.OpenStore, Events: sinks.Open})
}
