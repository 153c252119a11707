package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// list is a list of regions, by number. The region without has no share; it is -1 if all regions have one.
type list struct {
	regions []int
	without int
}

// use makes region i use a list. A region that is not in the list gets no more requests.
func (f *federation) use(t failer, i int, rate algo.Rate, l list) {
	t.Helper()
	f.lists[i] = l
	rate.Regions = (algo.Regions{Of: len(l.regions), Place: slices.Index(l.regions, i)})
	if rate.Regions.Place < 0 {
		return
	}
	if place := slices.Index(l.regions, l.without); place >= 0 {
		rate.Regions.Without = 1 << place
	}
	f.limits[i] = changed(t, f.limits[i], f.limits[i].Version, rate)
}

// gather moves share to region i from all other regions in its list.
func (f *federation) gather(t failer, i int, now algo.Instant) (got int64) {
	t.Helper()
	index, own := f.index(t, i, now), f.limits[i]
	for place, other := range own.Regions() {
		if j := f.lists[i].regions[place]; j != i && own.Rate.Regions.HasShare(place) {
			got += f.debitOf(t, j, other, now, index, 1)
		}
	}
	if got > 0 && !f.credit(t, i, now, index, got) { // a debit by another list has converted the state: the share is lost
		return 0
	}
	return got
}

// stepHistory is a random history in which a region joins or leaves the list in two steps.
type stepHistory struct {
	*federation
	*rand.Rand
	rate     algo.Rate
	steps    []list
	step     []int // of each region
	now      algo.Instant
	next     algo.Instant // the last step begins at this instant at the earliest; 0 while it is unknown
	admitted map[int64]int64
}

// In random histories, the regions never admit more than one store, also if some have taken the next step and others have
// not.
func testSharesStepHistories(t *testing.T, s Suite) {
	const histories = 20
	store, moved := s.Open(t), int64(0)
	for seed := range uint64(histories) {
		h := newStepHistory(t, s, store, seed)
		for range 150 {
			moved += h.play(named{t, seed})
		}
	}
	if moved < int64(histories) {
		t.Errorf("%d histories: got %d moved, want more", histories, moved)
	}
}

func newStepHistory(t *testing.T, s Suite, store limiter.Store, seed uint64) *stepHistory {
	r := rand.New(rand.NewPCG(seed, 7))
	h := &stepHistory{Rand: r, rate: sharedRates[r.IntN(2)], step: make([]int, 3), now: start, admitted: map[int64]int64{}}
	h.rate.Requests = 1 + r.Int64N(40)
	out := 1 + r.IntN(2)
	all, two := list{[]int{0, 1, 2}, -1}, list{[]int{0, 3 - out}, -1}
	h.steps = []list{all, {all.regions, out}, two}
	if r.IntN(2) == 0 {
		h.steps[0], h.steps[2] = two, all
	}
	h.federation = newFederation(t, s, store, h.rate, 3)
	h.lists = make([]list, 3)
	for i := range h.limits {
		h.use(t, i, h.rate, h.steps[0])
	}
	return h
}

func (h *stepHistory) play(t failer) (moved int64) {
	t.Helper()
	i := h.IntN(3)
	switch h.IntN(12) {
	case 0:
		h.now = h.now.Add(time.Duration(h.Int64N(int64(h.rate.Window))))
	case 1:
		h.advance(t, i)
	case 2, 3, 4:
		if slices.Contains(h.lists[i].regions, i) {
			moved = h.gather(t, i, h.now)
		}
	default:
		if slices.Contains(h.lists[i].regions, i) {
			h.request(t, i, 1+h.Int64N(1+h.rate.Requests/4))
		}
	}
	return moved
}

// advance makes region i take the next step, if the steps of all regions permit it.
func (h *stepHistory) advance(t failer, i int) {
	t.Helper()
	least := slices.Min(h.step)
	if least == 1 && h.next == 0 { // the first step has ended everywhere
		h.next = h.now.Add(2 * h.rate.Window)
	}
	if h.step[i] == 2 || h.step[i] > least || h.step[i] == 1 && h.now < h.next {
		return
	}
	h.step[i]++
	h.use(t, i, h.rate, h.steps[h.step[i]])
}

// request makes a request, and compares what all regions admitted with one store.
func (h *stepHistory) request(t failer, i int, cost int64) {
	t.Helper()
	if allowed, _ := h.take(t, i, h.now, cost); !allowed {
		return
	}
	w := h.window()
	index := w.Index(h.now)
	h.admitted[index] += cost
	total := algo.State{Window: index, Count: h.admitted[index], Previous: h.admitted[index-1]}
	if used := w.Used(total, h.now); total.Count > h.rate.Requests || used > h.rate.Requests {
		t.Fatalf("%+v, regions at the steps %v: got %+v admitted, which one store counts as %d, want at most %d", h.steps, h.step, total, used,
			h.rate.Requests)
	}
}
