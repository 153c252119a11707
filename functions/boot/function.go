package boot

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// OpenSink returns the destination of events that c names. The destination lives as long as the
// process. Start takes it as an argument so that programs without events link no client of Kafka
// or Kinesis.
type OpenSink func(ctx context.Context, c Config) (decisionlog.Sink, error)

// Start runs a function in this process for as long as Lambda lets it: it builds the
// environment, opens the store's connection, and answers events. A configuration that
// is wrong ends the process with one line in the log. What is decided is recorded on
// standard output. A message has one line of the log a second.
func Start(function func(*lambdahttp.Environment) lambda.Handler, openSink OpenSink) {
	logger := slog.New(telemetry.Sparing(lambdacontext.NewLogHandler()))
	e, err := open(context.Background(), os.LookupEnv, logger, openSink)
	if err != nil {
		logger.Error("cannot start", slog.Any("err", err))
		os.Exit(1)
	}
	lambda.Start(function(e))
}

func open(ctx context.Context, lookup func(string) (string, bool), logger *slog.Logger, openSink OpenSink) (*lambdahttp.Environment, error) {
	c, err := Load(lookup)
	if err != nil {
		return nil, err
	}
	store, _, err := c.OpenStore(ctx) // closed with the process
	if err != nil {
		return nil, err
	}
	hash, err := c.SubjectHash(ctx, logger)
	if err != nil {
		return nil, err
	}
	recorder := telemetry.New(os.Stdout, c.Namespace, hash)
	e, err := c.Environment(store, logger)
	if _, refused := errors.AsType[rules.Problems](err); refused {
		recorder.RulesRefused(time.Now())
	}
	if err != nil {
		return nil, err
	}
	inForce := e.Rules.Current()
	recorder.Rules(time.Now(), inForce.Version(), time.Time{}, inForce.Labels()) // until they are read again, if they ever are
	recorder.WatchClock(func() (ahead, uncertainty time.Duration, ok bool) { return limiter.ClockSkew(store) })
	e.Recorder = recorder
	if c.Events != "" {
		sink, err := openSink(ctx, c)
		if err != nil {
			return nil, err
		}
		e.Events = decisionlog.New(decisionlog.Options{
			Namespace: c.Namespace, Hash: hash, Sink: sink, OneIn: c.Sample,
			Budget: decisionlog.DefaultBudget, Dropped: recorder.EventsDropped, Logger: logger,
		})
	}
	c.warm(ctx, store, e)
	return e, nil
}

// warm opens the connections of an environment, in the time of a first decision at most. Who is
// not reached may be back when it is needed: an outage is no time for slow starts, of which it
// has more.
func (c Config) warm(ctx context.Context, store limiter.Store, e *lambdahttp.Environment) {
	ctx, cancel := context.WithTimeout(ctx, resilient.DefaultFirstTimeout)
	defer cancel()
	if err := c.Probe(ctx, store); err != nil {
		e.Logger.Warn("store not reached", slog.Any("err", err))
	}
	if err := e.Identifier.Warm(ctx, e.Clock()); err != nil {
		e.Logger.Warn("records table not reached", slog.Any("err", err))
	}
	_ = e.Rules.Refresh(ctx, e.Clock()) // which tells what is wrong
}
