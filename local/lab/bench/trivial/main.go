// Command trivial is a function that does nothing. Its start time is the minimum for this runtime.
package main

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"
)

type nothing struct{ answer []byte }

// Invoke implements lambda.Handler.
func (n nothing) Invoke(context.Context, []byte) ([]byte, error) { return n.answer, nil } //nolint:unparam // lambda.Handler has an error

func main() {
	answer := "{}"
	if n, err := strconv.Atoi(os.Getenv("BODY")); err == nil {
		answer = `{"statusCode":200,"body":"` + strings.Repeat("x", n) + `"}`
	}
	lambda.Start(nothing{[]byte(answer)})
}
