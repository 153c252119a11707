// Command authorizer-events is the REQUEST authorizer of a REST API.
// It sends decision events. The limits are in DynamoDB or Redis.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/dynamotable"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/sinks"
)

func main() {
	boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamotable.OpenStore, Redis: rediscache.OpenStore, Events: sinks.Open})
}
