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

// Measured: the smallest event that Lambda rejects, and the largest output that it accepts.
// Lambda's quota page says 6 MB for both.
const (
	maxEvent  = 6 << 20
	maxOutput = 6<<20 + 100
)

// The errors of an invocation, except errors that the function returns.
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
	// slot makes invocations run one at a time: each invocation holds its only element. It is nil for a
	// handler that can run concurrently.
	slot chan struct{}
}

// pooling is the type of handlers that reuse the memory of their answers. See newFunction.
var pooling = reflect.TypeOf(lambda.NewHandler(func() {}))

// newFunction prepares a function. If lambda.NewHandler created the handler, the gateway runs one
// invocation of it at a time. Such a handler returns memory that its next invocation overwrites, because
// a Lambda environment runs one invocation at a time. With two concurrent invocations, the gateway could
// send one caller's body to another caller. Other handlers run concurrently.
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

// invoke runs the function on an event. It waits at most for limit, and at most for the function's
// timeout. If limit ends first, the function continues until its timeout, as in Lambda, and invoke drops
// the function's answer. The function also continues if the client disconnects.
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

// run calls the handler. If the handler can run only one invocation at a time, run first
// waits for its turn. A panic fails the invocation.
func (f *function) run(ctx context.Context, event []byte) (o outcome) {
	if f.slot != nil {
		select {
		case f.slot <- struct{}{}:
			defer func() { <-f.slot }()
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil { // the invocation timed out while it waited
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

// errorMessage returns the errorMessage that Lambda reports for an error of a function.
func errorMessage(err error) string {
	if own, ok := errors.AsType[messages.InvokeResponse_Error](err); ok {
		return own.Message
	}
	return err.Error()
}
