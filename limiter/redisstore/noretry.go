package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// NoRetry is a hook that makes a client send each command once. If a client repeats a script whose answer
// was lost, the script can charge twice. New and NewBare add NoRetry to clients that accept hooks. A cluster client
// needs the hook, because its MaxRedirects option also allows retries. The client still follows
// redirects, because a node that redirects a command has not executed it. NoRetry is safe for concurrent
// use.
type NoRetry struct{}

var _ redis.Hook = NoRetry{}

// DialHook implements redis.Hook.
func (NoRetry) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (NoRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, final{cmd}) }
}

// ProcessPipelineHook implements redis.Hook. It changes nothing, because the commands of a Store's
// pipelines already have the type final.
func (NoRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// final is a command that is not sent again.
type final struct{ redis.Cmder }

func (final) NoRetry() bool { return true }
