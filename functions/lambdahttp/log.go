package lambdahttp

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// NewLog returns the function behind the subscriptions of logs. It charges limits of requests behind a REST API's
// authorizer, from lines of the stage's access log. Back ends invoke it with a contract.Report. It passes lines of decisions and notices
// to send, unless send is nil. e needs Limiter, Clock, Logger, Recorder and MACs.
//
// The function returns an error only if the store, the records table or send failed. If the event is repeated, what was
// charged counts twice.
func NewLog(e *Environment, send func(ctx context.Context, lines [][]byte) error) lambda.Handler {
	return &logReader{e, send}
}

type logReader struct {
	*Environment

	send func(context.Context, [][]byte) error
}

type logEvent struct {
	contract.Report

	Cost    json.RawMessage `json:"cost"` // replaces that of the Report
	AWSLogs *struct {
		Data []byte `json:"data"`
	} `json:"awslogs"`
}

// Invoke implements lambda.Handler.
func (f *logReader) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var event logEvent
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
	if err := f.sendDecisions(ctx, lines); err != nil {
		return nil, err
	}
	return []byte("null"), f.chargeLines(ctx, lines)
}

func (f *logReader) sendDecisions(ctx context.Context, lines []string) error {
	var decisions [][]byte
	for _, line := range lines {
		if f.send != nil && isDecision(line) {
			decisions = append(decisions, []byte(strings.TrimSpace(line)))
		}
	}
	if decisions == nil {
		return nil
	}
	return f.send(ctx, decisions)
}

// isDecision reports whether a line is a decision or a notice. A line of an access log has a report, and can have any
// member that a client adds.
func isDecision(line string) bool {
	members := objectOf([]byte(line))
	kind := unquoted(members[contract.LineKind])
	return members[contract.LogReport] == nil && (kind == telemetry.LineNotice || telemetry.IsDecision(kind))
}
