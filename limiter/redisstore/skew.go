package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// sendTimed is send for a call that sometimes also requests the server's time, in the same round trip. If the key is on
// another node, this node has not run the script. The client then sends the script to the other node.
func (s *Store) sendTimed(c *call) error {
	sent, due := s.skew.Begin()
	if !due {
		return s.send(c)
	}
	node := server(c.ctx, s.client, c.key)
	if node == nil || node.Options().PipelinePoolSize >= 0 { // a pipeline would then open another connection
		return s.send(c)
	}
	pipe := node.Pipeline()
	clock := pipe.Time(c.ctx)
	_ = pipe.Process(c.ctx, c)
	_, _ = pipe.Exec(c.ctx) // the commands return their own errors
	if now, err := clock.Result(); err == nil {
		s.skew.Observe(sent, now, now.Add(time.Microsecond))
	}
	if redirected(c.Err()) {
		return s.client.Process(c.ctx, c)
	}
	return c.Err()
}

// server returns the client of the server that has key, or nil if this server is unknown.
func server(ctx context.Context, client Client, key string) *redis.Client {
	switch c := client.(type) {
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
