package algo_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limits/weir/limiter/algo"
)

// The test has the example in the comment of Slots, and clocks that disagree.
func TestSlots_Take(t *testing.T) {
	const s = time.Second
	m := machine(t, algo.Rate{Algorithm: algo.Concurrent, Requests: 2, Window: 60 * s})
	runSteps(t, m, algo.State{}, []step{
		{0, 1, true, 1, 0, 60 * s},
		{40 * s, 1, true, 0, 0, 60 * s},
		{50 * s, 1, false, 0, 10 * s, 50 * s},
		{50 * s, 0, true, 0, 0, 50 * s},
		{50 * s, 3, false, 0, algo.Never, 50 * s},
		{60*s - 1, 1, false, 0, 1, 40*s + 1},
		{60 * s, 1, true, 0, 0, 60 * s},
		{59 * s, 1, false, 0, 41 * s, 61 * s}, // the slot of instant 0 has been removed, also for a slow clock
		{120 * s, 2, true, 0, 0, 60 * s},
		{115 * s, 1, false, 0, 65 * s, 65 * s},
	})
	first, _ := m.Take(algo.State{}, start, 1)
	second, _ := m.Take(first, start.Add(40*s), 1)
	if freed := m.Refund(second, second, 1, 0); m.Remaining(freed, start.Add(55*s)) != 1 || m.Remaining(second, start.Add(55*s)) != 0 {
		t.Errorf("after a release: got %d remaining, want 1", m.Remaining(freed, start.Add(55*s)))
	}
}

// Requests begin, end or die in a random order, each at the instants of its own clock. While no request
// runs for longer than the window minus the skew, at most the limit runs at a time. After all releases and
// expiries, all slots are free.
func TestSlots_inFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window, skew = time.Minute, 2 * time.Second
		n := rapid.Int64Range(1, 8).Draw(t, "requests")
		m := &algo.Slots{Length: window, Requests: n}
		type holder struct {
			charged algo.State
			began   algo.Instant
		}
		var s algo.State
		var running []holder
		now := start
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "step")))
			running = slices.DeleteFunc(running, func(h holder) bool { return now.Sub(h.began) >= window-skew }) // died, or ended without a release
			if i := rapid.IntRange(-2, len(running)-1).Draw(t, "release"); i >= 0 {
				s = m.Refund(s, running[i].charged, 1, 0)
				running = slices.Delete(running, i, i+1)
				continue
			}
			clock := now.Add(time.Duration(rapid.Int64Range(0, int64(skew)).Draw(t, "skew")))
			next, ok := m.Take(s, clock, 1)
			s = next
			if ok {
				running = append(running, holder{next, now})
			}
			if int64(len(running)) > n {
				t.Fatalf("got %d requests in flight, want at most %d", len(running), n)
			}
			if int64(s.Entries.Len()) > n {
				t.Fatalf("got %d slots, want at most %d", s.Entries.Len(), n)
			}
		}
		for _, h := range running {
			s = m.Refund(s, h.charged, 1, 0)
		}
		if free := m.Remaining(s, now.Add(window+skew)); free != n {
			t.Fatalf("got %d free slots at the end, want %d", free, n)
		}
	})
}

// A change of the parameters keeps the slots in flight, and their holders can release them. It drops
// expired slots, which would otherwise count again in a longer window.
func TestSlots_Convert(t *testing.T) {
	old := machine(t, algo.Rate{Algorithm: algo.Concurrent, Requests: 5, Window: time.Minute})
	var s algo.State
	var taken []algo.State
	for i := range 4 {
		s, _ = old.Take(s, start.Add(time.Duration(i)*20*time.Second), 1)
		taken = append(taken, s)
	}
	now := start.Add(70 * time.Second)
	for _, c := range []struct {
		name string
		to   algo.Rate
		free int64
	}{
		{"more slots", algo.Rate{Algorithm: algo.Concurrent, Requests: 9, Window: time.Minute}, 6},
		{"fewer slots", algo.Rate{Algorithm: algo.Concurrent, Requests: 2, Window: time.Minute}, 0},
		{"a longer window", algo.Rate{Algorithm: algo.Concurrent, Requests: 5, Window: time.Hour}, 2},
		{"a shorter window", algo.Rate{Algorithm: algo.Concurrent, Requests: 5, Window: 20 * time.Second}, 4},
		{"another kind", algo.Rate{Algorithm: algo.FixedWindow, Requests: 5, Window: time.Minute}, 2},
	} {
		m := machine(t, c.to)
		next := algo.Convert(old, m, s, now)
		if got := m.Remaining(next, now); got != c.free {
			t.Errorf("%s: got %d remaining, want %d", c.name, got, c.free)
		}
		if !algo.Refundable(m, old) {
			continue
		}
		for _, charged := range taken {
			next = m.Refund(next, charged, 1, 0)
		}
		if next.Entries.Len() != 0 {
			t.Errorf("%s: got %d slots after all releases, want 0", c.name, next.Entries.Len())
		}
	}
	window, log := machine(t, algo.Rate{Requests: 5, Window: time.Minute}), machine(t, algo.Rate{Algorithm: algo.SlidingLog, Requests: 5,
		Window: time.Minute})
	if algo.Refundable(nil, old) || algo.Refundable(window, old) || algo.Refundable(old, log) || algo.Refundable(nil, nil) ||
		!algo.Refundable(window, window) {
		t.Error("Refundable: got a wrong result, want false for machines without a common state and true for equal machines")
	}
}

// Merge keeps every slot of both states once, so each holder can release its slot.
func TestMerge_slots(t *testing.T) {
	m := machine(t, algo.Rate{Algorithm: algo.Concurrent, Requests: 100, Window: time.Hour})
	random := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		a, _ := m.Take(algo.State{}, start, 3)
		b := a
		for range random.IntN(12) {
			at := start + algo.Instant(random.IntN(6))
			a, _ = m.Take(a, at, random.Int64N(3))
			b, _ = m.Take(algo.State{Newest: b.Newest + 50, Entries: b.Entries}, at, random.Int64N(3))
		}
		all := map[algo.Instant]bool{}
		for _, e := range []algo.Entries{a.Entries, b.Entries} {
			for i := range e.Len() {
				all[e.At(i)] = true
			}
		}
		want := algo.NewEntries(slices.Sorted(maps.Keys(all))...)
		if got := algo.Merge(m, a, b).Entries; got != want {
			t.Fatalf("got %d slots, want the %d slots of both states", got.Len(), want.Len())
		}
	}
}

// The numbers of a millisecond are used in turn. A charge gets consecutive numbers, none of which is in use.
func TestSlots_numbers(t *testing.T) {
	const last = algo.Instant(algo.SlotNumbers - 1)
	m := &algo.Slots{Length: time.Minute, Requests: 10}
	for _, c := range []struct {
		name   string
		newest algo.Instant
		now    algo.Instant
		taken  []algo.Instant
		cost   int64
		want   algo.Instant // last new slot
	}{
		{"a new state", 0, start - 7, nil, 2, start + last - 5},
		{"the next number", start + 4, start, nil, 3, start + 7},
		{"the next number in a later millisecond", start + 4, start.Add(time.Millisecond), nil, 1, start.Add(time.Millisecond) + 5},
		{"the last number", start + last - 1, start, nil, 1, start + last},
		{"no number is left", start + last, start, nil, 1, start},
		{"too few numbers are left", start + last - 1, start, nil, 2, start + 1},
		{"numbers in use", start + 4, start, []algo.Instant{start + 6, start + 8}, 3, start + 11},
		{"numbers in use at the end", start + last - 4, start, []algo.Instant{start, start + 3, start + last - 1}, 3, start + 6},
		{"a new state, late in the millisecond", 0, start + last + 3, nil, 1, start.Add(time.Millisecond) + 2},
		{"numbers of a fallback", start + last + 1, start, nil, 2, start + last + 3},
		{"no number of a fallback is left", start + 2*last + 1, start, nil, 1, start + last + 1},
	} {
		s, ok := m.Take(algo.State{Newest: c.newest, Entries: algo.NewEntries(c.taken...)}, c.now, c.cost)
		if !ok || s.Newest != c.want || s.Entries.Len() != len(c.taken)+int(c.cost) ||
			m.Refund(s, s, c.cost, 0).Entries != algo.NewEntries(c.taken...) {
			t.Errorf("%s: got %t, last slot start%+d of %d, want start%+d", c.name, ok, s.Newest-start, s.Entries.Len(), c.want-start)
		}
	}
}
