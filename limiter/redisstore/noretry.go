package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// NoRetry is a hook by which a client sends each command once: a script that is sent again
// after its answer was lost may charge twice. New adds it to a client that takes hooks. A
// cluster client has no other way, because its MaxRedirects allows retries too; redirects,
// after which nothing was done, it follows still. Safe for concurrent use.
type NoRetry struct{}

var _ redis.Hook = NoRetry{}

// DialHook implements redis.Hook.
func (NoRetry) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (NoRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, final{cmd}) }
}

// ProcessPipelineHook implements redis.Hook. A Store has no pipelines.
func (NoRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// final is a command that is not sent again.
type final struct{ redis.Cmder }

func (final) NoRetry() bool { return true }
