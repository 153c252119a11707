// Command authorizer-events is the REQUEST authorizer of a REST API.
// It sends decision events. The limits are in DynamoDB or Redis.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() {
	boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamostore.Open, Redis: rediscache.OpenStore, Events: sinks.Open})
}
