package boot

import (
	"context"
	"log/slog"
	"runtime/debug"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Share sets the DynamoDB client that the store and the records table use. Call it before both are
// created.
func (c Config) Share(client *dynamodb.Client) {
	c.dynamo.once.Do(func() { c.dynamo.client = client })
}

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
	return c.start(ctx, store, o, Config.Environment)
}

// OpenPublisher returns the function publisher.
func OpenPublisher(ctx context.Context, lookup func(string) (string, bool), clock func() time.Time) (func(context.Context, cfn.Event) error,
	error) {
	f, err := openDeploy(ctx, lookup, clock)
	if err != nil {
		return nil, err
	}
	return f.(func(context.Context, cfn.Event) error), nil
}

// BuiltFrom makes the program one that was built from a commit of this time, until the test ends.
func BuiltFrom(t *testing.T, committed string) {
	before := buildInfo
	buildInfo = func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.time", Value: committed}}}, true
	}
	t.Cleanup(func() { buildInfo = before })
}

// OpenTables replaces the function that opens the store in a table, until the test ends.
func OpenTables(t *testing.T, open func(client *dynamodb.Client, table, namespace string) (limiter.Store, error)) {
	t.Helper()
	before := openTable
	openTable = open
	t.Cleanup(func() { openTable = before })
}

// Open is the part of Start that runs before the first event.
var Open = open
