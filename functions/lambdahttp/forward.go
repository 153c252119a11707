package lambdahttp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// NewForward returns the function behind the subscriptions of logs. It charges limits of requests behind a REST API's
// authorizer, from lines of the stage's access log, and sends the notices in lines of other functions to
// e.Notices. Back ends invoke it with a contract.Report. e needs Limiter, Clock, Logger, Recorder and MACs.
//
// The function returns an error only if the store, the records table or the bus failed. If the event is repeated, what was
// charged counts twice. The copies of a notice have the same id.
func NewForward(e *Environment) lambda.Handler {
	return &forwarder{
		Environment: e,
	}
}

type forwarder struct {
	*Environment
	repeated repeated
}

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
	kinds := f.byKind(lines)
	return []byte("null"), errors.Join(f.chargeLines(ctx, kinds[""]), f.sendNotices(ctx, kinds[telemetry.LineNotice]))
}

// byKind groups the lines that need a signature by their kind, and all others under "".
func (f *forwarder) byKind(lines []string) map[string][]string {
	kinds := map[string][]string{}
	for _, line := range lines {
		kind := kindOf(line)
		if kind != telemetry.LineNotice {
			kind = ""
		}
		kinds[kind] = append(kinds[kind], line)
	}
	return kinds
}

// kindOf returns the kind of a line that needs a signature, or "". Such a line has no report: a client can add members
// to a line of the access log, but must not prevent that it charges. A log can cut a line; only its beginning has the kind.
func kindOf(line string) string {
	var is struct {
		Kind   string `json:"weir"`
		Report any    `json:"report"`
	}
	if err := json.Unmarshal([]byte(line), &is); err != nil {
		begin, ours := strings.CutPrefix(line, `{"weir":"`)
		if ours && !strings.Contains(line, `"`+contract.LogReport+`"`) {
			is.Kind, _, _ = strings.Cut(begin, `"`)
			return is.Kind
		}
		return ""
	} else if is.Report != nil {
		return ""
	}
	return is.Kind
}

// dropped counts lines on which the function does not act, and logs the reason.
func (f *forwarder) dropped(ctx context.Context, n int, err error) {
	f.Recorder.LinesDropped(f.Clock(), n)
	f.Logger.LogAttrs(ctx, slog.LevelWarn, "log line dropped", slog.Any("err", err))
}
