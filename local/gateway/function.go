package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/local/gateway/template"
)

// The sizes of a synchronous invocation that Lambda refuses, and allows, as measured:
// its quota page says 6 MB for both.
const (
	maxEvent  = 6 << 20
	maxOutput = 6<<20 + 100
)

// Why an invocation has no output, beside what the function itself says.
var (
	errEventTooLarge       = errors.New("event too large")
	errOutputTooLarge      = errors.New("output too large")
	errFunctionTimedOut    = errors.New("function timed out")
	errIntegrationTimedOut = errors.New("integration timed out")
)

// function is a function of the template with the handler that runs it.
type function struct {
	template.Function

	handler lambda.Handler
	// slot is held by the one invocation at a time that some handlers can do; nil for
	// the others.
	slot chan struct{}
}

// pooling is the type of handlers that reuse memory; see newFunction.
var pooling = reflect.TypeOf(lambda.NewHandler(func() {}))

// newFunction prepares a function. What a handler of lambda.NewHandler returns is
// memory that its next invocation writes to: in Lambda an environment has one at a
// time, and here two at once would answer one caller with the other's body. So these
// run one at a time, and any other handler as often as it is called.
func newFunction(f template.Function, handler lambda.Handler) *function {
	runner := &function{Function: f, handler: handler}
	if reflect.TypeOf(handler) == pooling {
		runner.slot = make(chan struct{}, 1)
	}
	return runner
}

type outcome struct {
	payload []byte
	err     error
}

// invoke runs the function on an event. It returns after the function's own timeout
// or after limit, if that is sooner, whether or not the function has noticed: Lambda
// lets it run to its own deadline and nobody reads the answer. A caller that hangs up
// does not end it either.
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

// run calls the handler, when it is its turn. A panic ends the invocation and not the
// gateway.
func (f *function) run(ctx context.Context, event []byte) (o outcome) {
	if f.slot != nil {
		select {
		case f.slot <- struct{}{}:
			defer func() { <-f.slot }()
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil { // nobody waits for it any more
			return outcome{err: err}
		}
	}
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

// errorMessage is the errorMessage that Lambda reports for what a function returned.
func errorMessage(err error) string {
	if own, ok := errors.AsType[messages.InvokeResponse_Error](err); ok {
		return own.Message
	}
	return err.Error()
}
