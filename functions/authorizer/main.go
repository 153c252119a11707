// Command authorizer is the REQUEST authorizer of a REST API.
// The limits are in DynamoDB, and it sends no decision events.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/dynamotable"
	"github.com/weir-limits/weir/functions/lambdahttp"
)

func main() { boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamotable.OpenStore}) }
