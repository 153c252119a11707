// Command authorizer-redis is the REQUEST authorizer of a REST API.
// The limits are in Redis, and it sends no decision events.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/rediscache"
)

func main() { boot.Start(lambdahttp.NewAuthorizer, boot.Clients{Redis: rediscache.OpenStore}) }
