package lambdahttp

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-lambda-go/lambda"
)

// NewForward returns the function behind the subscriptions of logs. It charges limits of requests behind a REST API's
// authorizer, from lines of the stage's access log. Back ends invoke it with a contract.Report. e needs Limiter, Clock, Logger, Recorder
// and MACs.
//
// The function returns an error only if the store or the records table failed. If the event is repeated, what was
// charged counts twice.
func NewForward(e *Environment) lambda.Handler {
	return &forwarder{e}
}

type forwarder struct{ *Environment }

type forwardEvent struct {
	Report string          `json:"report"`
	Cost   json.RawMessage `json:"cost"`
	Status int             `json:"status"`
	Bytes  *int64          `json:"bytes"`

	AWSLogs *struct {
		Data []byte `json:"data"`
	} `json:"awslogs"`
}

// Invoke implements lambda.Handler.
func (f *forwarder) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var event forwardEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return f.invalid(ctx, err)
	}
	if event.AWSLogs == nil {
		return f.report(ctx, &event)
	}
	lines, err := uncompressed(event.AWSLogs.Data)
	if err != nil { // drop the event, because a repetition does not help
		_, err := f.invalid(ctx, err)
		return []byte("null"), err
	}
	return []byte("null"), f.chargeLines(ctx, lines)
}
