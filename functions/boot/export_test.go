package boot

import (
	"context"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Share sets the DynamoDB client that the store and the records table use. Call it before both are
// created.
func (c Config) Share(client *dynamodb.Client) {
	c.dynamo.once.Do(func() { c.dynamo.client = client })
}

// OpenForward returns the function forward, as StartForward does.
var OpenForward = openForward

// SubjectHash returns the hash that represents callers in logs.
func (c Config) SubjectHash(ctx context.Context, logger *slog.Logger) (telemetry.SubjectHash, error) {
	return c.subjectHash(ctx, logger)
}

// Warm opens the connections of an environment.
func (c Config) Warm(ctx context.Context, store limiter.Store, e *lambdahttp.Environment) {
	c.warm(ctx, store, e)
}

// StartOver creates an environment with store and opens its connections, as a function does.
func (c Config) StartOver(ctx context.Context, store limiter.Store, o Options) (*lambdahttp.Environment, error) {
	return c.start(ctx, store, o)
}

// OpenPublisher returns the function publisher.
var OpenPublisher = openPublisher

// NewAppConfigAgent returns the source of rules in AppConfig.
func NewAppConfigAgent(port int, c contract.Configuration) live.Source {
	return newAppConfigAgent(port, c)
}

// Open is the part of Start that runs before the first event.
var Open = open
