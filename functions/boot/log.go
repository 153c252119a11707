package boot

import (
	"context"
	"log/slog"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// OpenLog returns the environment of the function log, and opens its connections. Errors of the store and the table are
// only logged, because both can recover before the first event.
func OpenLog(ctx context.Context, lookup func(string) (string, bool), logger *slog.Logger) (Config, *lambdahttp.Environment, error) {
	return open(ctx, lookup, logger, Config.LogEnvironment)
}

// LogEnvironment returns the environment of the function log. It reads no rules. From the records
// table, it reads only the key of MACs.
func (c Config) LogEnvironment(ctx context.Context, store limiter.Store, o Options) (*lambdahttp.Environment, error) {
	e := &lambdahttp.Environment{Clock: o.Clock, Logger: o.Logger}
	if o.Metrics != nil {
		e.Recorder = telemetry.New(o.Metrics, c.Namespace, nil)
	}
	var err error
	e.Limiter, err = limiter.New(store, limiter.Options{Timeout: c.Timeout, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	if e.Clock == nil {
		e.Clock = e.Limiter.Now
	}
	e.MACs, err = c.macs(ctx, func(ctx context.Context, table records.ReadWriter, name string) ([]byte, error) {
		return mac.Read(ctx, table, name)
	})
	return e, err
}
