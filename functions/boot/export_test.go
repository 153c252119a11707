package boot

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Share makes client the one that the store and the records share. Call it before any of
// them is made.
func (c Config) Share(client *dynamodb.Client) {
	c.dynamo.once.Do(func() { c.dynamo.client = client })
}

// Guarded returns store as an environment uses it. err is that of making it.
func (c Config) Guarded(store limiter.Store, err error) (limiter.Store, error) {
	return c.guarded(store, err)
}

// SubjectHash returns the hash that represents callers in logs.
func (c Config) SubjectHash(ctx context.Context, logger *slog.Logger) (telemetry.SubjectHash, error) {
	return c.subjectHash(ctx, logger)
}

// Warm opens the connections of an environment.
func (c Config) Warm(ctx context.Context, store limiter.Store, e *lambdahttp.Environment) {
	c.warm(ctx, store, e)
}

// Open is what Start does before the first event.
var Open = open
