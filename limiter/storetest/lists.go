package storetest

import (
	"slices"
	"testing"

	"github.com/weir-limits/weir/limiter/algo"
)

// While the list of regions changes, no region gets quota by the change, and none gives what it has not. The rules can have a new version or not.
func testSharesList(t *testing.T, s Suite, rate algo.Rate) {
	for later := range int64(2) {
		f := newFederation(t, s, s.Open(t), rate, 2)
		f.move(t, 1, start, 3)
		f.admit(t, 0, start, 7, true)
		three := newFederation(t, s, f.pairs[0].store, rate, 3)
		for i := range f.limits {
			three.pairs[i] = f.pairs[i]
		}
		for i, l := range three.limits {
			rate.Regions = algo.Regions{Of: 3, Place: i}
			three.limits[i] = changed(t, l, l.Version+later, rate)
		}
		index := f.index(t, 0, start)
		three.admit(t, 0, start, 1, false)
		if moved := f.debit(t, 0, start, index, 1); moved != 0 {
			t.Fatalf("a debit by the old list: got %d, want 0", moved)
		}
		three.admit(t, 1, start, 3, false) // it gave 3 of its 3
		f.admit(t, 1, start, 3, false)     // also if the old list returns
		three.admit(t, 1, start, 1, false)
		if moved := three.debit(t, 2, start, index, 1); moved == 0 || !three.credit(t, 0, start, index, moved) {
			t.Fatalf("a transfer by the new list: got %d moved, want some", moved)
		}
	}
}

// list is a list of regions, by number. The region without has no share; it is -1 if all regions have one.
type list struct {
	regions []int
	without int
}

// use makes region i use a list. A region that is not in the list gets no more requests.
func (f *federation) use(t failer, i int, rate algo.Rate, l list) {
	t.Helper()
	f.lists[i] = l
	if rate.Regions = (algo.Regions{Of: len(l.regions), Place: slices.Index(l.regions, i)}); rate.Regions.Place < 0 {
		return
	}
	if place := slices.Index(l.regions, l.without); place >= 0 {
		rate.Regions.Without = 1 << place
	}
	f.limits[i] = changed(t, f.limits[i], f.limits[i].Version, rate)
}

// exhaust makes requests in each region until none has room, also with all share of the other regions. It returns the number
// of admitted requests.
func (f *federation) exhaust(t failer, now algo.Instant) (admitted int64) {
	t.Helper()
	for i, l := range f.lists {
		for slices.Contains(l.regions, i) {
			if allowed, _ := f.take(t, i, now, 1); allowed {
				admitted++
			} else if f.gather(t, i, now) == 0 {
				break
			}
		}
	}
	return admitted
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
	if got > 0 && !f.credit(t, i, now, index, got) {
		t.Fatalf("credit of %d in region %d: got none, want one", got, i)
	}
	return got
}

// A region joins or leaves the list in two steps: first it has no share, and after one window (sliding: two), it has one or is
// not in the list. In each step, the regions change one after another, and exhaust the limit each time. Together they never
// count more than the limit in a window. In one step, they would: a region that gave its share no longer counts.
func testSharesSteps(t *testing.T, s Suite, rate algo.Rate) {
	rate.Requests = 30
	all, two := list{[]int{0, 1, 2}, -1}, list{[]int{0, 2}, -1}
	without := list{all.regions, 1}
	for name, steps := range map[string][]list{"leave": {all, without, two}, "join": {two, without, all}, "leave at once": {all, two}, "join at once": {two, all}} {
		t.Run(name, func(t *testing.T) {
			f, now, most, sum := newFederation(t, s, s.Open(t), rate, 3), start, int64(0), int64(0)
			f.lists = make([]list, 3)
			for i := range f.limits {
				f.use(t, i, rate, steps[0])
			}
			w := f.window()
			for _, step := range steps {
				for _, i := range []int{2, 1, 0} {
					f.use(t, i, rate, step)
					sum += f.exhaust(t, now)
					most = max(most, sum)
				}
				if step.without >= 0 { // one window has passed, or two
					now = w.Start(w.Index(now) + 3)
					sum = f.exhaust(t, now)
				}
			}
			if exceeds := len(steps) == 2; most > 30 != exceeds || sum < 20 {
				t.Errorf("got up to %d of 30 admitted in a window, and %d in the last one, want more than 30 %t", most, sum, exceeds)
			}
		})
	}
}
