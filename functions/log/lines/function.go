package lines

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Sender sends lines to a broker.
type Sender interface {
	// Send returns after the broker has stored all lines, or returns an error.
	Send(ctx context.Context, lines [][]byte) error
}

// Open returns a Sender. It returns nil if the variables configure none.
type Open func(ctx context.Context, c boot.Config, lookup func(string) (string, bool)) (Sender, error)

// Start runs the function until Lambda ends the process.
func Start(open Open) {
	logger := slog.New(telemetry.NewRateLimitedHandler(lambdacontext.NewLogHandler()))
	f, err := start(context.Background(), os.LookupEnv, logger, open)
	if err != nil {
		logger.Error("cannot start", slog.Any("err", err))
		os.Exit(1)
	}
	lambda.Start(f)
}

func start(ctx context.Context, lookup func(string) (string, bool), logger *slog.Logger, open Open) (lambda.Handler, error) {
	c, e, err := boot.OpenLog(ctx, lookup, logger)
	if err != nil {
		return nil, err
	}
	to, err := open(ctx, c, lookup)
	return New(e, to), err
}

// New returns the function. Without a Sender, it ignores lines of decisions.
func New(e *lambdahttp.Environment, to Sender) lambda.Handler {
	return function{e, to, lambdahttp.NewForward(e)}
}

type function struct {
	*lambdahttp.Environment
	to   Sender
	rest lambda.Handler
}

// Invoke implements lambda.Handler.
func (f function) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if f.to != nil {
		lines, err := decisions(payload)
		if err == nil && len(lines) > 0 {
			err = f.to.Send(ctx, lines)
		}
		if err != nil {
			return nil, err
		}
	}
	return f.rest.Invoke(ctx, payload)
}

// maxLines bounds the uncompressed size of an event of CloudWatch Logs. An event has at most 1 MB of lines before
// compression.
const maxLines = 8 << 20

// decisions returns the lines of decisions and notices in an event of CloudWatch Logs.
func decisions(payload []byte) (lines [][]byte, err error) {
	var event struct {
		AWSLogs struct {
			Data []byte `json:"data"`
		} `json:"awslogs"`
	}
	err = json.Unmarshal(payload, &event)
	if err != nil || len(event.AWSLogs.Data) == 0 {
		return nil, nil //nolint:nilerr // no event of a log; another reader of the payload reports mistakes
	}
	r, err := gzip.NewReader(bytes.NewReader(event.AWSLogs.Data))
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	var log struct {
		LogEvents []struct {
			Message string `json:"message"`
		} `json:"logEvents"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxLines)).Decode(&log); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	for _, event := range log.LogEvents {
		if isDecision(event.Message) {
			lines = append(lines, bytes.TrimSpace([]byte(event.Message)))
		}
	}
	return lines, nil
}

// isDecision reports whether a line is a decision or a notice. A line of an access log has a report, and can have any
// member that a client adds.
func isDecision(message string) bool {
	var line map[string]json.RawMessage
	if json.Unmarshal([]byte(message), &line) != nil || line[contract.LogReport] != nil {
		return false
	}
	var kind string
	_ = json.Unmarshal(line[contract.LineKind], &kind)
	return kind == telemetry.LineNotice || telemetry.IsDecision(kind)
}
