package top

import (
	"cmp"
	"container/heap"
	"slices"
)

// size is the number of pairs of caller and limit that a counter keeps.
const size = 1000

// Caller is a caller that was refused, and the limit that refused it.
type Caller struct {
	Subject string `json:"subject"` // a hash
	Limit   string `json:"limit,omitempty"`
}

// Refused is a caller with its number of refusals, which is between Count - Error and Count.
type Refused struct {
	Caller
	Count int64 `json:"refused"`
	Error int64 `json:"error"`
}

// counter counts with the space-saving algorithm. The zero value is ready for use.
type counter struct {
	known  map[Caller]*entry
	least  byCount
	total  int64
	others int64 // refusals that the lines do not assign to a caller
}

type entry struct {
	Refused
	at int // index in the heap
}

func (c *counter) add(who Caller, n int64) {
	c.total += n
	if who.Subject == "" {
		c.others += n
		return
	}
	if c.known == nil {
		c.known = make(map[Caller]*entry, size)
	}
	e := c.known[who]
	switch {
	case e != nil:
		e.Count += n
		heap.Fix(&c.least, e.at)
		return
	case len(c.least) < size:
		e = &entry{Refused: Refused{who, n, 0}}
		heap.Push(&c.least, e)
	default:
		e = c.least[0]
		delete(c.known, e.Caller)
		e.Refused = Refused{who, e.Count + n, e.Count}
		heap.Fix(&c.least, 0)
	}
	c.known[who] = e
}

// byCount is a heap. The entry with the least count is first.
type byCount []*entry

func (b byCount) Len() int           { return len(b) }
func (b byCount) Less(i, j int) bool { return b[i].Count < b[j].Count }
func (b byCount) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].at, b[j].at = i, j
}

// Push implements heap.Interface.
func (b *byCount) Push(x any) {
	e := x.(*entry)
	e.at = len(*b)
	*b = append(*b, e)
}

// Pop implements heap.Interface. It is never called, because a counter never removes an entry.
func (b *byCount) Pop() any { panic("top: a counter only grows") }

// merge adds up several counters. It returns the n callers with the most refusals, in descending
// order.
func merge(counters []*counter, n int) Table {
	var t Table
	all := map[Caller]Refused{}
	for _, c := range counters {
		t.Refused += c.total
		t.Others += c.others
		for who, e := range c.known {
			r := all[who]
			all[who] = Refused{who, r.Count + e.Count, r.Error + e.Error}
		}
	}
	t.Most = make([]Refused, 0, len(all))
	for _, r := range all {
		t.Most = append(t.Most, r)
	}
	slices.SortFunc(t.Most, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Limit, b.Limit))
	})
	t.Most = t.Most[:min(n, len(t.Most))]
	return t
}
