package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/local/gateway/template"
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

type function struct {
	template.Function

	handler lambda.Handler
}

type outcome struct {
	payload []byte
	err     error
}

// invoke runs the function on an event. If the time limit ends before the function does, invoke returns an
// error, and the function continues until its own timeout, as on Lambda. The function also continues if the
// client disconnects.
func (f *function) invoke(ctx context.Context, event []byte, limit time.Duration) ([]byte, error) {
	if len(event) >= maxEvent {
		return nil, errEventTooLarge
	}
	wait, late := limit, errIntegrationTimedOut
	if f.Timeout < limit {
		wait, late = f.Timeout, errFunctionTimedOut
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.Timeout)
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{
		AwsRequestID: rand.Text(), InvokedFunctionArn: f.ARN,
	})
	done := make(chan outcome, 1)
	go func() {
		defer cancel()
		done <- f.run(ctx, event)
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

// run calls the handler. A panic of the handler becomes an error.
func (f *function) run(ctx context.Context, event []byte) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = outcome{err: fmt.Errorf("panic: %v\n%s", v, debug.Stack())}
		}
	}()
	payload, err := f.handler.Invoke(ctx, event)
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
