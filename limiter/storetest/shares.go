package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// sharedRates has one rate for each kind of window that regions can share. The first region has a base share of 4 of 10.
var sharedRates = []algo.Rate{
	{Algorithm: algo.SlidingWindow, Requests: 10, Window: time.Minute},
	{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Minute},
	{Requests: 10, Calendar: algo.Calendar{Period: algo.Day, Zone: "America/New_York"}},
}

// federation is a limit that regions share. Its regions are subjects of one store, which cannot know more than stores that
// are far apart.
type federation struct {
	limits []*limiter.Limit
	pairs  []*pair
}

func newFederation(t failer, s Suite, store limiter.Store, rate algo.Rate, regions int) *federation {
	t.Helper()
	f := &federation{}
	for i := range regions {
		rate.Regions = algo.Regions{Of: regions, Place: i}
		f.limits = append(f.limits, Limit(t, "a", rate))
		f.pairs = append(f.pairs, newPairOf(store, s))
	}
	return f
}

// window returns the windows of the whole limit.
func (f *federation) window() *algo.Window { return algo.WindowOf(f.limits[0].Machine()) }

// debit takes share of the window index from region i, in the store and in the model.
func (f *federation) debit(t failer, i int, now algo.Instant, index, lack int64) int64 {
	t.Helper()
	p, limit := f.pairs[i], f.limits[i]
	var seen algo.Result
	moved, err := p.store.(limiter.Shares).Debit(ctx, now, p.subject, limit, index, lack, &seen)
	if want := p.model.Debit(now, p.subject, limit, index, lack); err != nil || moved != want {
		t.Fatalf("debit of %d in region %d, window %d: got %d and error %v, want %d", lack, i, index, moved, err, want)
	}
	for _, e := range p.inspect(t) {
		if e.ID == limit.ID && moved > 0 && (seen.State != e.State || seen.Machine.Fingerprint() != e.Machine.Fingerprint()) {
			t.Fatalf("debit in region %d: got the state %+v, want that of the store: %+v", i, seen.State, e.State)
		}
	}
	return moved
}

// credit gives share of the window index to region i, in the store and in the model.
func (f *federation) credit(t failer, i int, now algo.Instant, index, moved int64) bool {
	t.Helper()
	p := f.pairs[i]
	r, credited, err := p.store.(limiter.Shares).Credit(ctx, now, p.subject, f.limits[i], index, moved)
	if want := p.model.Credit(p.subject, f.limits[i], index, moved); err != nil || credited != want {
		t.Fatalf("credit of %d in region %d, window %d: got %t and error %v, want %t", moved, i, index, credited, err, want)
	}
	for _, e := range p.inspect(t) {
		if credited && e.ID == f.limits[i].ID && r.State != e.State {
			t.Fatalf("credit of %d in region %d: got the state %+v, want %+v", moved, i, r.State, e.State)
		}
	}
	return credited
}

func (f *federation) state(t failer, i int) (s algo.State) {
	t.Helper()
	for _, e := range f.pairs[i].inspect(t) {
		if e.ID == f.limits[i].ID {
			s = e.State
		}
	}
	return s
}

// index returns the window of region i for a transfer.
func (f *federation) index(t failer, i int, now algo.Instant) int64 {
	t.Helper()
	return max(f.state(t, i).Window, f.window().Index(now))
}

// testShares runs the part of the suite for limits that regions share. It skips a store that is not limiter.Shares.
func testShares(t *testing.T, s Suite) {
	if _, ok := s.Open(t).(limiter.Shares); !ok {
		t.Skip("the store cannot move share between regions")
	}
	for _, rate := range sharedRates {
		t.Run("Concurrent/"+nameOf(rate), func(t *testing.T) { testSharesConcurrent(t, s, rate) })
	}
	t.Run("Histories", func(t *testing.T) { testSharesHistories(t, s) })
	t.Run("Lists", func(t *testing.T) { testSharesLists(t, s) })
}

// A hint of an earlier list of regions does not decide: a charge with a later list of the same version converts the state.
func testSharesLists(t *testing.T, s Suite) {
	p, rate := newPair(t, s), sharedRates[1]
	rate.Regions = algo.Regions{Of: 2, List: 1}
	earlier := Limit(t, "a", rate)
	rate.Regions = algo.Regions{Of: 3, List: 2}
	_, seen := p.take(t, start, one(earlier, 4), nil)
	if allowed, _ := p.take(t, start, one(changed(t, earlier, 1, rate), 1), seen); allowed {
		t.Fatal("all of the share used: got an allowed request by the hint, want a refusal by the later list")
	}
}

// Regions that charge and move share at the same time admit no more than the limit, and no share gets lost.
func testSharesConcurrent(t *testing.T, s Suite, rate algo.Rate) {
	rate.Requests = 30
	f, shares := newFederation(t, s, s.Open(t), rate, 3), s.Open(t).(limiter.Shares)
	index := f.window().Index(start)
	together(t, 12, func(n int) {
		i := n % 3
		p, l := f.pairs[i], f.limits[i]
		for range 20 {
			if takeSoon(t, p.store, start, []limiter.Charge{{Subject: p.subject, Limit: l, Cost: 1}}) {
				continue
			}
			j := (i + 1 + n%2) % 3
			moved, err := shares.Debit(ctx, start, f.pairs[j].subject, f.limits[j], index, 1, new(algo.Result))
			if err == nil && moved > 0 {
				_, credited, err := shares.Credit(ctx, start, p.subject, l, index, moved)
				if err != nil || !credited {
					t.Errorf("credit: got %t and error %v, want one", credited, err)
				}
			}
		}
	})
	admitted, sum := int64(0), int64(0)
	for i, p := range f.pairs {
		entries, err := p.store.Inspect(ctx, p.subject)
		if err != nil || len(entries) != 1 {
			t.Fatalf("region %d: got %+v and error %v, want one limit", i, entries, err)
		}
		admitted += entries[0].State.Count
		sum += entries[0].State.Moved()
	}
	if admitted != 30 || sum != 0 {
		t.Fatalf("240 requests in three regions: got %d admitted and a sum of %d moved, want 30 and 0", admitted, sum)
	}
}

// sharesHistory is a random history of several regions. Some credits are lost or late. Some messages are repeated, as far
// as that is harmless.
type sharesHistory struct {
	*federation
	*rand.Rand
	t      failer
	now    algo.Instant
	skew   []time.Duration
	seen   [][]algo.Result // results that a region saw, which can be stale
	late   []lateCredit
	forced int64
	moved  int
}

type lateCredit struct {
	region       int
	index, moved int64
}

// In random histories, the store gives the answers of the model. With equal clocks, the regions count no more than one
// store would. With clocks a second apart, they count no more than the limit in each window.
func testSharesHistories(t *testing.T, s Suite) {
	const histories = 20
	store, moved := s.Open(t), 0
	for seed := range uint64(histories) {
		h := newSharesHistory(t, s, store, seed)
		for range 120 {
			h.step()
		}
		moved += h.moved
	}
	if moved < histories {
		t.Errorf("%d histories: got %d transfers, want more", histories, moved)
	}
}

func newSharesHistory(t *testing.T, s Suite, store limiter.Store, seed uint64) *sharesHistory {
	r := rand.New(rand.NewPCG(seed, 5))
	rate := sharedRates[r.IntN(len(sharedRates))]
	rate.Requests = 1 + r.Int64N(60)
	n := 2 + r.IntN(3)
	h := &sharesHistory{federation: newFederation(t, s, store, rate, n), Rand: r, t: named{t, seed}, now: start,
		skew: make([]time.Duration, n), seen: make([][]algo.Result, n)}
	if r.IntN(2) == 0 {
		for i := range h.skew {
			h.skew[i] = time.Duration(r.Int64N(int64(time.Second)))
		}
	}
	return h
}

// named adds the seed of a history to its failures.
type named struct {
	*testing.T
	seed uint64
}

func (n named) Fatalf(format string, args ...any) {
	n.Helper()
	n.T.Fatalf("seed %d: "+format, append([]any{n.seed}, args...)...)
}

func (h *sharesHistory) clock(i int) algo.Instant { return h.now.Add(h.skew[i]) }

func (h *sharesHistory) step() {
	i := h.IntN(len(h.limits))
	switch h.IntN(20) {
	case 0:
		h.now = h.now.Add(time.Duration(h.Int64N(int64(h.window().Length))))
	case 1:
		h.now = h.now.Add(time.Duration(h.Int64N(int64(2 * time.Second))))
	case 2:
		if h.IntN(5) == 0 {
			h.pairs[i].reset(h.t)
		}
	case 3, 4:
		h.settle(i)
	case 5, 6, 7, 8:
		h.transfer(i)
	case 9:
		if n := len(h.late); n > 0 {
			c := h.late[n-1]
			h.late = h.late[:n-1]
			h.credit(h.t, c.region, h.clock(c.region), c.index, c.moved)
		}
	default:
		h.request(i)
	}
}

func (h *sharesHistory) request(i int) {
	cost := 1 + h.Int64N(1+h.limits[i].MaxCost()/3)
	var hint []algo.Result
	if h.IntN(3) > 0 {
		hint = h.seen[i]
	}
	allowed, results := h.pairs[i].take(h.t, h.clock(i), one(h.limits[i], cost), hint)
	if h.IntN(2) == 0 {
		h.seen[i] = results
	}
	if allowed {
		h.judge(results[0].State.Window, h.clock(i))
	}
}

// judge compares the counts of all regions with one store.
func (h *sharesHistory) judge(index int64, now algo.Instant) {
	w := h.window()
	total := algo.State{Window: index}
	skewed := false
	for i := range h.limits {
		s := h.state(h.t, i)
		skewed = skewed || h.skew[i] != 0
		switch s.Window {
		case index + 1:
			total.Count += s.Previous
		case index:
			total.Count += s.Count
			total.Previous += s.Previous
		case index - 1:
			total.Previous += s.Count
		}
	}
	if most := w.Requests + h.forced; total.Count > most || !skewed && w.Used(total, now) > most {
		h.t.Fatalf("got %+v in all regions, want at most %d (clocks apart %t)", total, most, skewed)
	}
}

func (h *sharesHistory) settle(i int) {
	seen := h.seen[i]
	if seen == nil {
		return
	}
	c := one(h.limits[i], 1+h.Int64N(3))
	c[0].Subject = h.pairs[i].subject
	c[0].Force = h.IntN(8) == 0
	if c[0].Force {
		h.forced += c[0].Cost
	}
	h.pairs[i].settle(h.t, h.clock(i), c, seen, 0)
	h.pairs[i].inspect(h.t)
}

func (h *sharesHistory) transfer(i int) {
	index, now := h.index(h.t, i, h.clock(i)), h.clock(i)
	got := int64(0)
	for j := range h.limits {
		if j == i || h.IntN(8) == 0 {
			continue
		}
		moved := h.debit(h.t, j, now, index, 1+h.Int64N(1+h.limits[i].MaxCost()/2))
		if h.IntN(8) > 0 { // the answer of the debit is not lost
			got += moved
		}
	}
	if got == 0 {
		return
	}
	h.moved++
	switch h.IntN(6) {
	case 0: // lost
	case 1:
		h.late = append(h.late, lateCredit{i, index, got})
	default:
		h.credit(h.t, i, now, index, got)
	}
}
