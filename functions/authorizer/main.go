// Command authorizer is the REQUEST authorizer of a REST API.
// The limits are in DynamoDB, and it sends no decision events.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

func main() { boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamostore.Open}) }
