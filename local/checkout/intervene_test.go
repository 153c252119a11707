package checkout_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
)

// Of two commands at the same time, none loses the block of the other.
func TestCheckout_Intervene(t *testing.T) {
	c, now := checkout.Checkout{Root: t.TempDir()}, time.Unix(1e9, 0)
	var (
		wg      sync.WaitGroup
		written atomic.Int64
	)
	for i := range 8 {
		wg.Go(func() {
			was, err := c.Interventions(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			made, _ := was.Put(now, rules.Intervention{Kind: "user", Value: strconv.Itoa(i), End: now.Unix() + 9})
			err = c.Intervene(t.Context(), made, was.Version)
			if err == nil {
				written.Add(1)
			} else if !errors.Is(err, rulestore.ErrConflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v, err := c.Interventions(t.Context())
	if err != nil || len(v.List) != int(written.Load()) || len(v.List) == 0 {
		t.Errorf("got %d blocks, %v, want %d", len(v.List), err, written.Load())
	}
}
