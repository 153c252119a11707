package simulate

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/redisstore"
)

// cluster is a model of ElastiCache Serverless. A script costs ECPUs, the billing units of ElastiCache.
// A slot contains many keys. Each slot, and the cache as a whole, has a maximum number of ECPUs a
// second. It rejects the scripts above this maximum.
type cluster struct {
	*meter
	store *memstore.Store
	whole allowance
	slots [slots]allowance
	heat  map[limiter.Subject]*heat
}

// slots is the number of slots of a cluster.
const slots = 16384

func newCluster(m *meter, slot, whole float64) (*cluster, error) {
	store, err := memstore.New(memstore.Options{Subjects: math.MaxInt32}) // a number that no simulation reaches
	if err != nil {
		return nil, err
	}
	c := &cluster{meter: m, whole: newAllowance(whole, epoch), heat: map[limiter.Subject]*heat{}, store: store}
	for i := range c.slots {
		c.slots[i] = newAllowance(slot, epoch)
	}
	return c, nil
}

// cache is the store of one environment over a cluster. Like limiter/redisstore, it makes one
// atomic call for each decision.
type cache struct {
	limiter.Store // only Take and Settle are called
	env           *environment
	cluster       *cluster
}

// Take implements limiter.Store.
func (c *cache) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	sent, found, allowed := slices.Clone(charges), make([]algo.Result, len(charges)), false
	billed, problem := c.env.measured(), error(nil)
	err := c.env.trip(ctx, func(at algo.Instant) {
		if problem = errTurnedAway; c.cluster.serve(subject, at, billed) {
			allowed, problem = c.cluster.store.Take(ctx, now, subject, sent, found)
		}
	})
	if err != nil {
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	copy(results, found)
	return allowed, problem
}

// Settle implements limiter.Store.
func (c *cache) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (limiter.Settled, error) {
	sent, taken := slices.Clone(charges), slices.Clone(results)
	settled, billed, problem := new(limiter.Settled), c.env.measured(), new(error)
	err := c.env.trip(ctx, func(at algo.Instant) {
		if *problem = errTurnedAway; c.cluster.serve(subject, at, billed) {
			if billed {
				c.cluster.settled++
			}
			*settled, *problem = c.cluster.store.Settle(ctx, now, subject, sent, taken, elapsed+redisstore.DefaultMargin, once)
		}
	})
	if err != nil {
		return limiter.Settled{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	return *settled, *problem
}

// errTurnedAway is the error that limiter/redisstore returns if the cache answers with an error.
var errTurnedAway = fmt.Errorf("%w: the cache has no ECPUs left in this second", limiter.ErrUnavailable)

// serve reports whether the cluster runs a script of subject that arrives at an instant.
func (c *cluster) serve(subject limiter.Subject, at algo.Instant, billed bool) bool {
	slot := &c.slots[crc32.ChecksumIEEE([]byte(subject.String()))%slots] // any hash function is good enough
	if billed {
		c.calls++
	}
	if open := slot.open(at); !c.whole.open(at) || !open {
		c.refuse(at)
		return false
	}
	slot.spare -= ecpuPerScript
	c.whole.spare -= ecpuPerScript
	h := c.heat[subject]
	if h == nil {
		h = new(heat)
		c.heat[subject] = h
	}
	c.warm(h, at, 1)
	if billed {
		c.writes++
	}
	return true
}
