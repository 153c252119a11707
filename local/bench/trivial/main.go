// Command trivial is a function that does nothing. Its start time is the minimum for this runtime.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

type nothing struct{}

// Invoke implements lambda.Handler.
func (nothing) Invoke(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil } //nolint:unparam // lambda.Handler has an error

func main() { lambda.Start(nothing{}) }
