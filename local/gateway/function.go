package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// The smallest event that Lambda rejects and the largest output that it accepts, both measured.
// Lambda's quota page says 6 MB for both.
const (
	maxEvent  = 6 << 20
	maxOutput = 6<<20 + 100
)

// The failures of an invocation other than an error that the function returns.
var (
	errEventTooLarge       = errors.New("event too large")
	errOutputTooLarge      = errors.New("output too large")
	errFunctionTimedOut    = errors.New("function timed out")
	errIntegrationTimedOut = errors.New("integration timed out")
)

type outcome struct {
	payload []byte
	err     error
}

// invoke runs a function on an event. If the limit or the timeout ends before the function does, invoke returns an
// error, and the function continues until its own timeout, as on Lambda. The function also continues if the
// client disconnects.
func invoke(ctx context.Context, function lambda.Handler, event any, timeout, limit time.Duration) ([]byte, error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	if len(payload) >= maxEvent {
		return nil, errEventTooLarge
	}
	wait, late := limit, errIntegrationTimedOut
	if timeout < limit {
		wait, late = timeout, errFunctionTimedOut
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: rand.Text()})
	done := make(chan outcome, 1)
	go func() {
		defer cancel()
		done <- run(ctx, function, payload)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.payload, o.err
	case <-timer.C:
		return nil, late
	}
}

// run calls a function. A panic becomes an error.
func run(ctx context.Context, function lambda.Handler, event []byte) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = outcome{err: fmt.Errorf("panic: %v\n%s", v, debug.Stack())}
		}
	}()
	payload, err := function.Invoke(ctx, event)
	switch {
	case err != nil:
		return outcome{err: err}
	case len(payload) > maxOutput:
		return outcome{err: errOutputTooLarge}
	}
	return outcome{payload: bytes.Clone(payload)}
}

func errorMessage(err error) string {
	if own, ok := errors.AsType[messages.InvokeResponse_Error](err); ok {
		return own.Message
	}
	return err.Error()
}
