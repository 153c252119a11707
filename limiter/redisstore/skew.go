package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
)

// timed is a client that also requests the server's time in the round trip of its next script call.
type timed struct {
	Client
	key  string
	sent time.Time
	skew *limiter.Skew
}

// EvalSha implements redis.Scripter. If the key is on another node, this node has not run the script.
// The client then sends the script to the other node.
func (t timed) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	node := server(ctx, t.Client, t.key)
	if node == nil || node.Options().PipelinePoolSize >= 0 { // a pipeline would then open another connection
		return t.Client.EvalSha(ctx, sha, keys, args...)
	}
	pipe := node.Pipeline()
	clock := pipe.Time(ctx)
	cmd := evalSha(ctx, sha, keys, args)
	_ = pipe.Process(ctx, final{cmd})
	_, _ = pipe.Exec(ctx) // the commands return their own errors
	if now, err := clock.Result(); err == nil {
		t.skew.Observe(t.sent, now, now.Add(time.Microsecond))
	}
	if redirected(cmd.Err()) {
		return t.Client.EvalSha(ctx, sha, keys, args...)
	}
	return cmd
}

// server returns the client of the server that has key, or nil if this server is unknown.
func server(ctx context.Context, client Client, key string) *redis.Client {
	switch c := client.(type) {
	case *batched:
		return server(ctx, c.Client, key)
	case *redis.ClusterClient:
		if node, err := c.MasterForKey(ctx, key); err == nil {
			return node
		}
	case *redis.Client:
		return c
	}
	return nil
}

// ClockSkew implements limiter.SkewEstimator with the server's TIME. The first script call requests the
// time in the same round trip, and some later calls do. If PipelinePoolSize of the client is 0 or more,
// the store never requests the time, because that would need another connection. The skew then stays
// unknown.
func (s *Store) ClockSkew() (ahead, uncertainty time.Duration, ok bool) { return s.skew.ClockSkew() }
