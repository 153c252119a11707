// Command authorizer limits the REST API.
package main

import (
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
)

func main() { boot.Start(lambdahttp.NewAuthorizer) }
