package simulate

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// cluster models ElastiCache Serverless. A script costs ECPUs, ElastiCache's billing unit. Each
// slot (a group of keys) and the whole cache accept a maximum number of ECPUs per second, and
// reject further scripts.
type cluster struct {
	*meter
	store *memstore.Store
	whole allowance
	slots [slots]allowance
	heat  map[limiter.Subject]*heat
}

const slots = 16384

func newCluster(m *meter, slot, whole float64) (*cluster, error) {
	store, err := memstore.New(memstore.Options{Subjects: math.MaxInt32}) // the maximum number of subjects, which no simulation reaches
	if err != nil {
		return nil, err
	}
	c := &cluster{meter: m, whole: newAllowance(whole, epoch), heat: map[limiter.Subject]*heat{}, store: store}
	for i := range c.slots {
		c.slots[i] = newAllowance(slot, epoch)
	}
	return c, nil
}

// cache is the store of one environment over the cluster. Like limiter/redisstore, it makes one
// atomic call for each decision.
type cache struct {
	limiter.Store // embedded for the methods that are never called; only Take is
	env           *environment
	cluster       *cluster
}

// Take implements limiter.Store.
func (c *cache) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	// The call needs its own copies, because it can arrive after the timeout, when Take has returned.
	sent, found := slices.Clone(charges), make([]algo.Result, len(charges))
	allowed, err := carry(ctx, c.env, func(at algo.Instant, billed bool) (bool, error) {
		if !c.cluster.serve(subject, at, billed) {
			return false, errTurnedAway
		}
		return c.cluster.store.Take(ctx, now, subject, sent, found)
	})
	if err == nil {
		copy(results, found)
	}
	return allowed, err
}

// errTurnedAway is limiter/redisstore's error for an error answer of the cache.
var errTurnedAway = fmt.Errorf("%w: the cache has no ECPUs left in this second", limiter.ErrUnavailable)

// serve reports whether the cluster accepts a script for a subject. at is the time when the script arrives.
func (c *cluster) serve(subject limiter.Subject, at algo.Instant, billed bool) bool {
	slot := &c.slots[crc32.ChecksumIEEE([]byte(subject.String()))%slots] // any hash function does, because only the distribution matters
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
