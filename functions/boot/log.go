package boot

import (
	"context"
	"log/slog"
	"os"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// OpenLog returns the environment of the function log, and opens its connections. Errors of the store and the table are
// only logged, because both can recover before the first event.
func OpenLog(ctx context.Context, lookup func(string) (string, bool), logger *slog.Logger) (Config, *lambdahttp.Environment, error) {
	c, store, err := loadStore(ctx, lookup, logger)
	if err != nil {
		return c, nil, err
	}
	e, err := c.start(ctx, store, Options{Logger: logger, Metrics: os.Stdout}, Config.LogEnvironment)
	return c, e, err
}

// LogEnvironment returns the environment of the function log. It reads no rules. From the records
// table, it reads only the key of MACs.
func (c Config) LogEnvironment(ctx context.Context, store limiter.Store, o Options) (*lambdahttp.Environment, error) {
	l, err := limiter.New(store, limiter.Options{Timeout: c.Timeout, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	e := &lambdahttp.Environment{Limiter: l, Clock: o.Clock, Logger: o.Logger}
	if e.Clock == nil {
		e.Clock = l.Now
	}
	if o.Metrics != nil {
		e.Recorder = telemetry.New(o.Metrics, c.Namespace, nil)
	}
	e.MACs, err = c.macs(ctx, func(ctx context.Context, table records.ReadWriter, name string) ([]byte, error) {
		return mac.Read(ctx, table, name)
	})
	return e, err
}
