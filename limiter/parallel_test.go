package limiter_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// broken is a remote store that panics on demand.
type broken struct {
	*remote
	takes, settles bool
}

func (b *broken) Take(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	time.Sleep(time.Millisecond)
	if b.takes && s == user {
		panic("broken take")
	}
	return b.remote.Take(ctx, now, s, charges, results)
}

func (b *broken) Settle(ctx context.Context, now algo.Instant, s limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (limiter.Settled, error) {
	if b.settles && s == user {
		panic("broken settle")
	}
	return b.remote.Settle(ctx, now, s, charges, results, elapsed)
}

// caught calls a function and returns the text of its panic.
func caught(f func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	f()
	return "no panic"
}

// A panic of a store reaches the goroutine of the request or settlement, for one subject and for several. Later
// requests work.
func TestLimiter_panic(t *testing.T) {
	limits := perMinute(t, "a", 20)
	mine, theirs := limiter.Charge{Subject: user, Limit: limits, Cost: 1}, limiter.Charge{Subject: other, Limit: limits, Cost: 1}
	none := limiter.Charge{Subject: other, Limit: perMinute(t, "none", 1), Cost: 1}
	for name, c := range map[string]struct {
		charges []limiter.Charge
		settles bool // the panic is in Settle
		receipt bool // the request settles its receipt
	}{
		"one subject":                 {[]limiter.Charge{mine}, false, false},
		"two subjects":                {[]limiter.Charge{theirs, mine}, false, false},
		"refund of a refused request": {[]limiter.Charge{mine, none}, true, false},
		"settlement, one subject":     {[]limiter.Charge{mine}, true, true},
		"settlement, first subject":   {[]limiter.Charge{mine, theirs}, true, true},
		"settlement, second subject":  {[]limiter.Charge{theirs, mine}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &broken{remote: newRemote()}
				l := storetest.Must(limiter.New(store, limiter.Options{CacheTTL: -1, Logger: slog.New(slog.DiscardHandler)}))
				take(t, l, none)
				store.takes, store.settles = !c.settles, c.settles
				got := caught(func() {
					_, receipt, err := l.TakeRefundable(ctx, noon, c.charges)
					if err != nil {
						t.Error(err)
					}
					if c.receipt {
						receipt.Refund(ctx, noon)
					}
				})
				if !strings.Contains(got, "broken") || len(c.charges) > 1 && !strings.Contains(got, "parallel_test.go") {
					t.Errorf("got %q, want the panic of the store, and for several subjects its stack", got)
				}
				store.takes, store.settles = false, false
				if d := take(t, l, mine, theirs); !d.Allowed || d.Reason != limiter.ReasonNone || l.InFlight() != 0 {
					t.Errorf("the next request: got %+v with %d calls in flight, want it allowed and none", d, l.InFlight())
				}
			})
		})
	}
}
