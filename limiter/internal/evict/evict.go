// Package evict chooses what a full map of subjects forgets.
package evict

import (
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// A Chooser compares candidates entries that may go. For them it looks at up to looks entries, and once a pause at all:
// otherwise each request in a flood of new subjects would look at all entries if few may go.
const (
	candidates = 16
	looks      = 512
	pause      = time.Second
)

// Chooser chooses the entries of one map that go. The zero value is ready for use.
type Chooser struct{ searched algo.Instant }

// Choose returns the key of the entry that was unused for the longest time, of a random sample of those that may go. The
// function used returns the last use of an entry, and whether it may go. ok is false if Choose finds none.
func Choose[K comparable, E any](c *Chooser, now algo.Instant, entries map[K]E, used func(K, E) (at algo.Instant, may bool)) (oldest K,
	ok bool) {
	left, found, first := looks, 0, algo.Instant(0)
	if now.Sub(c.searched).Abs() >= pause {
		left, c.searched = len(entries), now
	}
	for key, e := range entries { // in random order
		if left == 0 || found == candidates {
			break
		}
		left--
		if at, may := used(key, e); may {
			if found == 0 || at < first {
				oldest, first = key, at
			}
			found++
		}
	}
	return oldest, found > 0
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
