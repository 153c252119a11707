package simulate

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// cluster is ElastiCache: nodes of one thread each, which run one script after another, in
// the order in which they arrive. A key is on one node.
type cluster struct {
	*meter
	store  *memstore.Store
	script time.Duration
	free   []algo.Instant // when each node has done what it has to do
	heat   map[limiter.Subject]*heat
}

// backlog is how long the work may be that waits for a node: what arrives then is lost, as
// when buffers are full.
const backlog = time.Second

func newCluster(m *meter, nodes int, script time.Duration) *cluster {
	return &cluster{
		meter: m, script: script, free: make([]algo.Instant, nodes), heat: map[limiter.Subject]*heat{},
		store: memstore.New(memstore.Options{Subjects: math.MaxInt32}), // as many as come
	}
}

// cache is the store of one environment over a cluster: limiter/redisstore makes one call
// a decision, which is atomic.
type cache struct {
	limiter.Store // of which only Take is called
	env           *environment
	cluster       *cluster
}

// Take implements limiter.Store.
func (c *cache) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result) (bool, error) {
	sent, found, allowed := []limiter.Charge{charges[0]}, make([]limiter.Result, 1), false
	billed, problem := c.env.sim.measured(c.env), error(nil)
	err := c.env.trip(func(at algo.Instant) (algo.Instant, bool) {
		done, ok := c.cluster.serve(subject, at, billed)
		if ok {
			allowed, problem = c.cluster.store.Take(ctx, now, subject, sent, found)
		}
		return done, ok
	})
	if err != nil {
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	results[0] = found[0]
	return allowed, problem
}

// serve returns when the node of subject has run a script that arrives at an instant; false
// if it is lost.
func (c *cluster) serve(subject limiter.Subject, at algo.Instant, billed bool) (done algo.Instant, ok bool) {
	node := &c.free[int(crc32.ChecksumIEEE([]byte(subject.String())))%len(c.free)]
	if billed {
		c.calls++
	}
	if node.Sub(at) > backlog {
		if at >= c.from && at < c.end {
			c.throttled++
		}
		return at, false
	}
	*node = max(*node, at).Add(c.script)
	h := c.heat[subject]
	if h == nil {
		h = new(heat)
		c.heat[subject] = h
	}
	c.warm(h, at, 1)
	if billed {
		c.writes++
	}
	return *node, true
}
