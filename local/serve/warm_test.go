package serve

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// cold is a store whose first calls are slow.
type cold struct {
	limiter.Store
	mu    sync.Mutex
	calls int
	most  int // maximum number of concurrent calls
	now   int
	held  map[limiter.Subject]bool
}

func (c *cold) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	c.mu.Lock()
	c.calls++
	c.now++
	c.most = max(c.most, c.now)
	c.held[s] = true
	c.mu.Unlock()
	time.Sleep(time.Second / 2)
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return c.Store.Take(ctx, now, s, charges, results)
}

func (c *cold) Reset(ctx context.Context, s limiter.Subject) error {
	c.mu.Lock()
	delete(c.held, s)
	c.mu.Unlock()
	return c.Store.Reset(ctx, s)
}

// The warm-up makes as many concurrent calls as a burst, and removes all its subjects.
func TestWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cold{Store: storetest.Must(memstore.New(memstore.Options{})), held: map[limiter.Subject]bool{}}
		if err := warm(t.Context(), c); err != nil || c.calls != warmCallers*warmCalls || c.most != warmCallers || len(c.held) != 0 {
			t.Errorf("warm-up: got %d calls, %d concurrent, %d subjects left, error %v; want all calls, all callers concurrent and no subject",
				c.calls, c.most, len(c.held), err)
		}
	})
	if err := warm(t.Context(), storetest.Must(memstore.New(memstore.Options{}))); err != nil {
		t.Error(err)
	}
}
