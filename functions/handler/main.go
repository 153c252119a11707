// Command handler runs the API and enforces its limits.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	_ "github.com/weir-limits/weir/functions/stores"
)

func main() {
	boot.Start(func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) })
}
