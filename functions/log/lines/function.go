package lines

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/boot"
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
	boot.Run(slog.New(telemetry.NewRateLimitedHandler(lambdacontext.NewLogHandler())), func(logger *slog.Logger) (any, error) {
		ctx := context.Background()
		c, e, err := boot.OpenLog(ctx, os.LookupEnv, logger)
		if err != nil {
			return nil, err
		}
		to, err := open(ctx, c, os.LookupEnv)
		return New(e, to), err
	})
}

// New returns the function. Without a Sender, it ignores lines of decisions.
func New(e *lambdahttp.Environment, to Sender) lambda.Handler {
	if to == nil {
		return lambdahttp.NewLog(e, nil)
	}
	return lambdahttp.NewLog(e, to.Send)
}
