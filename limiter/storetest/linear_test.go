package storetest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// contended is a store in which every third settlement of slots fails with ErrContended, after it has
// released the slots.
type contended struct {
	limiter.Store
	settlements atomic.Int64
}

// Settle implements limiter.Store.
func (c *contended) Settle(ctx context.Context, now algo.Instant, who limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (limiter.Settled, error) {
	for i, charge := range charges {
		if _, slots := results[i].Machine.(*algo.Slots); slots && !charge.Force && c.settlements.Add(1)%3 == 0 {
			if settled, err := c.Store.Settle(ctx, now, who, charges[i:i+1], results[i:i+1], elapsed, limiter.Once{}); err != nil {
				return settled, err
			}
			return limiter.Settled{}, limiter.ErrContended
		}
	}
	return c.Store.Settle(ctx, now, who, charges, results, elapsed, once)
}

// Linearizable accepts a store whose contended settlements release their slots and make no other
// correction.
func TestLinearizable_contended(t *testing.T) {
	storetest.Linearizable(t, storetest.Linear{
		Place: func(*testing.T) string { return "" },
		Open: func(*testing.T, string) limiter.Store {
			return &contended{Store: storetest.Must(memstore.New(memstore.Options{}))}
		},
		Margin:   50 * time.Millisecond,
		Releases: true,
	})
}
