// Command handler is the API behind the limits.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/app"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/sinks"
)

func main() {
	boot.Start(func(e *app.Environment) lambda.Handler { return app.NewHandler(e, app.NewAPI(e)) }, sinks.Open)
}
