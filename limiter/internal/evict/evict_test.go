package evict

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A full map with random uses always gives the longest unused entry that may go, except the one that must stay. Some entries
// never may go, and the map removes others by itself. The queue has no more memory than the map, and none if no entry had
// to go for a second.
func TestNext(t *testing.T) {
	const size, steps = 200, 20_000
	type entry struct {
		used  algo.Instant
		heavy bool
	}
	random, now, entries := rand.New(rand.NewPCG(42, 15)), algo.Instant(time.Hour), map[int]*entry{}
	var q Queue[int]
	used := func(key int) (algo.Instant, bool) {
		e := entries[key]
		if e == nil {
			return 0, false
		}
		return e.used, !e.heavy
	}
	for i := range steps {
		now = now.Add(1 + time.Duration(random.IntN(20))*time.Millisecond)
		kept := -1
		for key, e := range entries {
			switch n := random.IntN(100 * size); {
			case n < 100:
				now++
				e.used = now
			case n < 110:
				delete(entries, key)
			case n < 130:
				e.heavy = true
			case i%2000 == 0 && e.heavy:
				e.heavy = false
			}
		}
		for key, e := range entries { // in every fourth step, the longest unused one stays
			if i%4 == 0 && !e.heavy && (entries[kept] == nil || e.used < entries[kept].used) {
				kept = key
			}
		}
		if i%2000 == 0 {
			now = now.Add(time.Second)
		}
		if len(entries) >= size {
			want := -1
			for key, e := range entries {
				if !e.heavy && key != kept && (want < 0 || e.used < entries[want].used) {
					want = key
				}
			}
			got, ok := Next(&q, now, entries, kept, used)
			if ok != (want >= 0) || ok && got != want {
				t.Fatalf("step %d: got %d, %t, want %d", i, got, ok, want)
			}
			if !ok {
				continue
			}
			delete(entries, got)
		}
		now++
		entries[i] = &entry{used: now}
		q.Added(now, i, len(entries))
		if n := len(q.uses); n > 2*size {
			t.Fatalf("step %d: got %d uses for %d entries", i, n, len(entries))
		}
	}
	// The map is full of those that may not go, and then not full any more.
	looks := 0
	heavy := func(int) (algo.Instant, bool) {
		looks++
		return 0, false
	}
	now = now.Add(time.Second)
	for range 3 {
		if _, ok := Next(&q, now.Add(time.Second-1), entries, 0, heavy); ok || looks != len(entries) {
			t.Errorf("none may go: got %t after %d looks, want one look at each of %d entries", ok, looks, len(entries))
		}
	}
	for range 10 * size {
		q.Added(now.Add(time.Second-1), 0, size)
		if n := len(q.uses); n > 2*size {
			t.Fatalf("got %d uses for %d entries", n, size)
		}
	}
	Next(&q, now, entries, 0, heavy)
	q.Added(now.Add(time.Second), 0, size)
	if q.uses != nil {
		t.Error("a new entry after a second: got a queue, want none")
	}
}
