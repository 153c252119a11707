package boot

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Start runs a function until Lambda ends the process. It creates the environment, opens the
// connection to the store, and answers events. An invalid configuration ends the process with one log
// line. Start writes metrics to standard output, and logs each message at most once a second.
func Start(function func(*lambdahttp.Environment) lambda.Handler) {
	Run(slog.New(telemetry.NewRateLimitedHandler(lambdacontext.NewLogHandler())), func(logger *slog.Logger) (any, error) {
		_, e, err := open(context.Background(), os.LookupEnv, logger, Config.Environment)
		if err != nil {
			return nil, err
		}
		return function(e), nil
	})
}

// Run runs the function that open returns until Lambda ends the process. An error ends the process with one log line.
func Run(logger *slog.Logger, open func(*slog.Logger) (any, error)) {
	function, err := open(logger)
	if err != nil {
		logger.Error("cannot start", slog.Any("err", err))
		os.Exit(1)
	}
	lambda.Start(function)
}

// create is Config.Environment, or Config.LogEnvironment.
type create = func(Config, context.Context, limiter.Store, Options) (*lambdahttp.Environment, error)

// open loads the configuration of a function, and returns its environment. The connections stay open until the process ends.
// It logs an error if Lambda drops the metrics of the function.
func open(ctx context.Context, lookup func(string) (string, bool), logger *slog.Logger, create create) (Config, *lambdahttp.Environment,
	error) {
	c, err := Load(lookup)
	if err != nil {
		return c, nil, err
	}
	if level, _ := lookup(contract.VariableLogLevel); contract.DropsMetrics(level) {
		logger.Error(contract.VariableLogLevel + ": Lambda drops all metrics of Weir at this level (got " + level +
			", want INFO); set ApplicationLogLevel of the function to INFO")
	}
	store, _, err := c.OpenStore(ctx)
	if err != nil {
		return c, nil, err
	}
	e, err := c.start(ctx, store, Options{Logger: logger, Metrics: os.Stdout}, create)
	return c, e, err
}

// start returns an environment with store, which create creates, and opens its connections. All its calls together may take as
// long as the first decision of an environment.
func (c Config) start(ctx context.Context, store limiter.Store, o Options, create create) (*lambdahttp.Environment, error) {
	ctx, cancel := context.WithTimeout(ctx, resilient.FirstTimeout)
	defer cancel()
	e, err := create(c, ctx, store, o)
	if err == nil {
		c.warm(ctx, store, e)
	}
	return e, err
}

// warm opens the connections of an environment. It only logs errors, because the store can recover
// before the first request.
func (c Config) warm(ctx context.Context, store limiter.Store, e *lambdahttp.Environment) {
	if err := c.Probe(ctx, store); err != nil {
		e.Logger.Warn("store not reached", slog.Any("err", err))
	} else if warning := Warning(ctx, store); warning != "" {
		e.Logger.Warn(warning)
	}
	if e.Rules == nil { // the function log
		return
	}
	if err := e.Identifier.Warm(ctx, e.Clock()); err != nil {
		e.Logger.Warn("records table not reached", slog.Any("err", err))
	}
	_ = e.Rules.Refresh(ctx, e.Clock()) // the observer of the rules reports the error
}
