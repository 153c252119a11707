// Command authorizer is the REQUEST authorizer of a REST API.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	_ "github.com/weir-limits/weir/functions/stores"
)

func main() { boot.Start(lambdahttp.NewAuthorizer) }
