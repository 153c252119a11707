package limiter_test

import (
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

var (
	transferSeed      = flag.Uint64("transfer.seed", 1, "seed of the first history of TestLimiter_Take_regionsHistories")
	transferHistories = flag.Uint64("transfer.histories", 0, "number of histories; 0 is 150, or 100,000 if WEIR_SOAK is set")
)

// In random histories with lost and late messages, partitions and bursts, the regions together never count more than one
// store would. With clocks a second apart, they never count more than the limit in a window.
func TestLimiter_Take_regionsHistories(t *testing.T) {
	histories := cmp.Or(*transferHistories, 150)
	if *transferHistories == 0 && os.Getenv("WEIR_SOAK") != "" {
		histories = 100_000
	}
	var sum limiter.Transfer
	for seed := range histories {
		synctest.Test(t, func(t *testing.T) {
			h := newTransferHistory(t, *transferSeed+seed)
			h.run()
			sum.Moved += h.moved.Moved
			sum.Lost += h.moved.Lost
		})
		if t.Failed() {
			t.Fatalf("to repeat: go test ./limiter -run regionsHistories -transfer.histories 1 -transfer.seed %d", *transferSeed+seed)
		}
	}
	t.Logf("%d histories: %d moved, %d messages lost", histories, sum.Moved, sum.Lost)
	if *transferHistories == 0 && (sum.Moved == 0 || sum.Lost == 0) {
		t.Errorf("got %+v, want some share moved and some messages lost", sum)
	}
}

type transferHistory struct {
	*federation
	t      *testing.T
	r      *rand.Rand
	skew   []time.Duration
	skewed bool
	mu     sync.Mutex
	moved  limiter.Transfer
	latest algo.Instant // of all requests
}

func newTransferHistory(t *testing.T, seed uint64) *transferHistory {
	r := rand.New(rand.NewPCG(seed, 6))
	rate := algo.Rate{Algorithm: algo.FixedWindow, Requests: 1 + r.Int64N(60), Window: time.Duration(1+r.IntN(20)) * time.Second}
	if r.IntN(2) == 0 {
		rate.Algorithm = algo.SlidingWindow
	}
	h := &transferHistory{federation: newFederation(t, 2+r.IntN(3), limiter.Limit{Rate: rate}), t: t, r: r, skewed: r.IntN(2) == 0}
	for _, s := range h.stores {
		s.delay = time.Duration(r.Int64N(int64(450 * time.Millisecond)))
		d := time.Duration(0)
		if h.skewed {
			d = time.Duration(r.Int64N(int64(time.Second)))
		}
		h.skew = append(h.skew, d)
	}
	return h
}

// run makes 100 requests in three windows, from a region that changes.
func (h *transferHistory) run() {
	window := h.limits[0].Rate.Window
	var all sync.WaitGroup
	for n := range 100 {
		time.Sleep(time.Duration(h.r.Int64N(int64(6 * window / 100))))
		i := (n / 40) % len(h.limits)
		if h.r.IntN(3) == 0 {
			i = h.r.IntN(len(h.limits))
		}
		if s := h.stores[h.r.IntN(len(h.stores))]; h.r.IntN(8) == 0 {
			s.cut.Store(h.r.IntN(3) == 0)
			s.unhear.Store(h.r.IntN(4) == 0)
			s.fails.Store(h.r.IntN(4) == 0)
		}
		cost := int64(1)
		if h.r.IntN(4) == 0 {
			cost = 1 + h.r.Int64N(1+h.limits[i].MaxCost()/3)
		}
		now := time.Now().Add(h.skew[i])
		h.mu.Lock()
		h.latest = max(h.latest, algo.InstantOf(now))
		h.mu.Unlock()
		all.Go(func() {
			d := h.take(h.t, i, now, cost)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.moved.Moved += d.Transfer.Moved
			h.moved.Lost += d.Transfer.Lost
			h.judge()
		})
	}
	all.Wait()
}

// judge compares the counts of all regions with one store, at the latest instant of a request: later, less would count.
func (h *transferHistory) judge() {
	w := algo.WindowOf(h.limits[0].Machine())
	counts, newest := map[int64]int64{}, int64(0)
	for _, s := range h.stores {
		entries, err := s.Inspect(context.Background(), limiter.User("42"))
		if err != nil {
			h.t.Error(err)
		}
		for _, e := range entries {
			counts[e.State.Window] += e.State.Count
			counts[e.State.Window-1] += e.State.Previous
			newest = max(newest, e.State.Window)
		}
	}
	for index, n := range counts {
		if n > w.Requests {
			h.t.Errorf("window %d: got %d admitted by all regions, want at most %d", index, n, w.Requests)
		}
	}
	total := algo.State{Window: newest, Count: counts[newest], Previous: counts[newest-1]}
	if used := w.Used(total, h.latest); !h.skewed && used > w.Requests {
		h.t.Errorf("got %+v in all regions, which one store counts as %d, want at most %d", total, used, w.Requests)
	}
}

// One region is cut off for an hour. It admits its share in each minute, and the others theirs and what they can move. Never
// is more than the limit admitted. In the first window after the cut, everything is as before.
func TestLimiter_Take_regionsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFederation(t, 3, sharedMinute)
		minute := func(n int, cut bool) (admitted [3]int64) {
			f.stores[2].cut.Store(cut) // no message to region 2 arrives
			for k := range 200 {       // twice the limit, in all regions
				for i := range admitted {
					for _, s := range f.stores[:2] { // and none from it
						s.cut.Store(cut && i == 2)
					}
					now := noon.Add(time.Duration(n)*time.Minute + time.Duration(k)*200*time.Millisecond)
					if (i == 0 || k%4 == 0) && f.take(t, i, now, 1).Allowed {
						admitted[i]++
					}
				}
			}
			return admitted
		}
		before := minute(0, false)
		for n := 1; n <= 60; n++ {
			a := minute(n, true)
			if sum := a[0] + a[1] + a[2]; sum > 300 || a[2] > 100 || a[0] < 100 {
				t.Fatalf("minute %d of the cut: got %v admitted, want at most 300, at most 100 in the region that is cut off, and more than 100 "+
					"elsewhere", n, a)
			}
		}
		if after := minute(61, false); after != before {
			t.Errorf("after the cut: got %v admitted, want %v as before", after, before)
		}
	})
}
