// Package evict chooses what a full map of subjects forgets.
package evict

import (
	"container/heap"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// pause is the least time between two looks at all entries. Otherwise each request in a flood of new subjects would look at
// all of them if none may go.
const pause = time.Second

// Queue has the entries of one full map that may go, in the order of their last use. While the map is not full, it is empty
// and costs nothing. The zero value is ready for use.
type Queue[K comparable] struct {
	uses  uses[K]      // nil if the next Next must look at all entries
	built algo.Instant // when Next looked at all entries
}

// Next removes from the queue the key of the entry that was unused for the longest time, of those that may go, and returns
// it. The caller removes the entry. The function used returns the last use of an entry, and whether it may go; not if the map
// has no such entry. The entry of the key kept stays. ok is false if no entry may go. An entry that could not go before, and
// now can, is found within a second.
func Next[K comparable, E any](q *Queue[K], now algo.Instant, entries map[K]E, kept K,
	used func(K) (at algo.Instant, may bool)) (oldest K, ok bool) {
	if q.old(now) {
		q.uses, q.built = make(uses[K], 0, len(entries)), now
		for key := range entries {
			if at, may := used(key); may {
				q.uses = append(q.uses, use[K]{key, at})
			}
		}
		heap.Init(&q.uses)
	}
	var own uses[K]
	for len(q.uses) > 0 && !ok {
		u := heap.Pop(&q.uses).(use[K])
		switch at, may := used(u.key); {
		case !may: // removed, or used too much
		case at > u.at:
			heap.Push(&q.uses, use[K]{u.key, at})
		case u.key == kept:
			own = append(own, u)
		default:
			oldest, ok = u.key, true
		}
	}
	for _, u := range own {
		heap.Push(&q.uses, u)
	}
	return oldest, ok
}

// Added adds a new entry to the queue, which was used at the instant now. entries is the number of entries of the map.
func (q *Queue[K]) Added(now algo.Instant, key K, entries int) {
	switch {
	case q.old(now), len(q.uses) >= 2*entries: // twice: entries that the map removed by itself
		q.uses = nil
	default:
		heap.Push(&q.uses, use[K]{key, now})
	}
}

// old reports whether the next Next looks at all entries.
func (q *Queue[K]) old(now algo.Instant) bool {
	return q.uses == nil || now.Sub(q.built).Abs() >= pause
}

// use is a use of an entry: the last one, or an earlier one.
type use[K comparable] struct {
	key K
	at  algo.Instant
}

// uses is a heap. The first use is the earliest one.
type uses[K comparable] []use[K]

func (u *uses[K]) Len() int           { return len(*u) }
func (u *uses[K]) Less(i, j int) bool { return (*u)[i].at < (*u)[j].at }
func (u *uses[K]) Swap(i, j int)      { (*u)[i], (*u)[j] = (*u)[j], (*u)[i] }
func (u *uses[K]) Push(x any)         { *u = append(*u, x.(use[K])) }
func (u *uses[K]) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}

// Count counts what was evicted. The zero value is ready for use. It is safe for concurrent use.
type Count struct{ n atomic.Int64 }

// Add adds one.
func (c *Count) Add() { c.n.Add(1) }

// Take returns what was counted since the last Take.
func (c *Count) Take() int64 {
	if c.n.Load() == 0 {
		return 0
	}
	return c.n.Swap(0)
}
