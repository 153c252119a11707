package limiter_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Three regions, 120 ms apart, admit almost what one store admits. The requests come at random intervals, at a
// percentage of the limit, and each region gets a part of them.
func TestLimiter_Take_regionsFigures(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests int64
		window   time.Duration
		percent  float64
		parts    [3]float64
		// least is what the regions admit at least, in percent of what one store admits: with a fixed and with a sliding
		// window. calls is the largest number of calls between regions per decision.
		least, calls [2]float64
	}{
		{"one region", 1000, time.Minute, 90, [3]float64{1, 0, 0}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.08}},
		{"one region, above the limit", 1000, time.Minute, 200, [3]float64{1, 0, 0}, [2]float64{99, 98.5}, [2]float64{0.12, 0.3}},
		{"uneven", 1000, time.Minute, 90, [3]float64{.8, .15, .05}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.06}},
		{"even", 1000, time.Minute, 90, [3]float64{1, 1, 1}, [2]float64{99.5, 99.5}, [2]float64{0.01, 0.05}},
		{"small", 60, time.Minute, 90, [3]float64{1, 0, 0}, [2]float64{98, 96}, [2]float64{0.12, 0.9}},
		{"short window", 100, time.Second, 90, [3]float64{1, 0, 0}, [2]float64{97, 85}, [2]float64{0.07, 0.25}},
	} {
		for i, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow} {
			synctest.Test(t, func(t *testing.T) {
				rate := algo.Rate{Algorithm: algorithm, Requests: c.requests, Window: c.window, Counts: true}
				admitted, calls := trafficFigures(t, rate, c.percent/100, c.parts)
				t.Logf("%s, %s: %.2f %% of one store, %.4f calls between regions a decision", c.name, algorithm, admitted, calls)
				if admitted < c.least[i] || admitted > 100.5 || calls > c.calls[i] {
					t.Errorf("%s, %s: got %.2f %% and %.4f calls, want at least %.1f %% and at most %.2f calls", c.name, algorithm, admitted, calls,
						c.least[i], c.calls[i])
				}
			})
		}
	}
}

// trafficFigures returns what three regions admit in 20 windows, in percent of what one store admits, and their calls per
// decision.
func trafficFigures(t *testing.T, rate algo.Rate, load float64, parts [3]float64) (percent, calls float64) {
	t.Helper()
	f := newFederation(t, 3, limiter.Limit{Rate: rate})
	for _, s := range f.stores {
		s.delay = 120 * time.Millisecond
	}
	one := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{}))
	single := limit(t, limiter.Limit{Name: "one", Rate: rate})
	r := rand.New(rand.NewPCG(7, 1))
	end, gap := time.Now().Add(20*rate.Window), float64(rate.Window)/(float64(rate.Requests)*load)
	var all sync.WaitGroup
	var admitted, asked, moved, wanted atomic.Int64
	for {
		time.Sleep(time.Duration(r.ExpFloat64() * gap))
		now := time.Now()
		if now.After(end) {
			break
		}
		u, i := r.Float64()*(parts[0]+parts[1]+parts[2]), 0
		for ; i < 2 && u > parts[i]; i++ {
			u -= parts[i]
		}
		all.Go(func() {
			d := f.take(t, i, now, 1)
			asked.Add(1)
			moved.Add(int64(d.Transfer.Calls))
			if d.Allowed {
				admitted.Add(1)
			}
		})
		if d, err := one.Take(context.Background(), now, []limiter.Charge{{Subject: limiter.User("42"), Limit: single, Cost: 1}}); err == nil &&
			d.Allowed {
			wanted.Add(1)
		}
	}
	all.Wait()
	return 100 * float64(admitted.Load()) / float64(wanted.Load()), float64(moved.Load()) / float64(asked.Load())
}
