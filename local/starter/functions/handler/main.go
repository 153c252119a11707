// Command handler runs the API.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"

	"example.com/limits/functions/api"
)

func main() {
	boot.Start(func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, api.New(e)) })
}
