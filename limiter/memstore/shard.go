package memstore

import (
	"cmp"
	"slices"
	"sync"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/evict"
)

// shard is a part of the subjects under one lock.
type shard struct {
	mu       sync.Mutex
	entries  map[limiter.Subject]*entry
	weight   int // sum of the weights of all counts
	capacity int
	unused   evict.Queue[limiter.Subject]
	evicted  *evict.Count // of all shards
}

// entry is what a shard holds of one subject.
type entry struct {
	counts []count
	used   algo.Instant // last charge, also one that was refused
}

// count is the state of one limit of a subject. The limit has the parameters and the version of the state.
type count struct {
	limit *limiter.Limit
	state algo.State
	skew  algo.Skew
	least int64 // the smaller part that newer rules gave the same limit, which light judges; 0 for that of limit
}

// find returns the count of a limit; nil if there is none. e can be nil.
func (e *entry) find(id limiter.ID) *count {
	if e != nil {
		for i := range e.counts {
			if e.counts[i].limit.ID == id {
				return &e.counts[i]
			}
		}
	}
	return nil
}

func (c *count) held() limiter.Held {
	return limiter.Held{Result: algo.Result{Machine: algo.Whole(c.limit.Machine()), State: c.state}, Version: c.limit.Version, Skew: c.skew}
}

// part returns the smallest part of the limit.
func (c *count) part() int64 { return cmp.Or(c.least, algo.Least(c.limit.Machine())) }

// moved returns the share that moved, of a limit that regions share.
func (c *count) moved() (present, before int64) {
	if _, ok := c.limit.Machine().(*algo.Shared); ok {
		present, before = c.state.Moved(), c.state.MovedBefore()
	}
	return present, before
}

// current sets r to the state that decides c (limiter.Held.Current), and returns its count; nil if the limit was never
// charged. If Held.Current changed the state and the cost is not 0, current stores it.
func (sh *shard) current(e *entry, c *limiter.Charge, now algo.Instant, r *algo.Result) (at *count) {
	var held limiter.Held
	own := c.Limit
	at = e.find(c.Limit.ID)
	if at != nil {
		own = at.limit
		if m := c.Limit.Machine(); own == c.Limit && !m.Ahead(at.state, now) { // nothing to change
			r.Machine, r.State, r.Clamped = m, at.state, false
			return at
		}
		held = at.held()
		if same(own, c.Limit) {
			held.Machine = c.Limit.Machine() // so that Current need not compare the fingerprints
			if least := algo.Least(c.Limit.Machine()); c.Cost > 0 && c.Limit.Version > own.Version && least < at.part() {
				at.least = least
			}
		}
	}
	held, changed := held.Current(c.Limit, now)
	*r = held.Result
	if !changed || c.Cost == 0 {
		return at
	}
	if held.Machine == c.Limit.Machine() && held.Version == c.Limit.Version {
		own, at.least = c.Limit, 0
	}
	sh.replace(at, count{own, held.State, held.Skew, at.least})
	return at
}

// replace stores another count in the place of at.
func (sh *shard) replace(at *count, c count) {
	sh.weight += weight(&c.state) - weight(&at.state)
	*at = c
}

// put stores the state of a charged limit, and returns the entry of the subject. e is its entry until now; nil if there is
// none.
func (sh *shard) put(e *entry, subject limiter.Subject, limit *limiter.Limit, s algo.State, now algo.Instant) *entry {
	if at := e.find(limit.ID); at != nil {
		sh.set(at, s)
		return e
	}
	if e == nil {
		e = &entry{used: now}
		subject = subject.Clone() // the subject can share memory with a large request text
		sh.entries[subject] = e
		sh.unused.Added(now, subject, len(sh.entries))
	}
	e.counts = append(e.counts, count{limit: limit, state: s})
	sh.weight += weight(&s)
	return e
}

// set replaces the state of a count.
func (sh *shard) set(at *count, s algo.State) {
	sh.weight += weight(&s) - weight(&at.state)
	at.state = s
}

// drop removes the counts that the function ends selects, and the entry if it is then empty.
func (sh *shard) drop(subject limiter.Subject, e *entry, ends func(*count) bool) {
	kept := e.counts[:0]
	for i := range e.counts {
		if c := &e.counts[i]; ends(c) {
			sh.weight -= weight(&c.state)
		} else {
			kept = append(kept, *c)
		}
	}
	clear(e.counts[len(kept):])
	e.counts = kept
	if len(kept) == 0 {
		delete(sh.entries, subject)
	}
}

// slotEntries is how many entries of logs count as much as a limit.
const slotEntries = 8

// weight returns the weight of a count with the state s.
func weight(s *algo.State) int { return 1 + (s.Entries.Len()+slotEntries-1)/slotEntries }

// growth returns how much more a limit of the subject with the entry e weighs with the state s.
func growth(e *entry, limit *limiter.Limit, s *algo.State) int {
	if at := e.find(limit.ID); at != nil {
		return weight(s) - weight(&at.state)
	}
	return weight(s)
}

// fits reports whether the shard has room for the weight. If the shard holds no other subject, it has room for MaxCharges
// limits of any weight.
func (sh *shard) fits(subject limiter.Subject, weight int) bool {
	e := sh.entries[subject]
	return sh.weight+weight <= sh.capacity || len(sh.entries) == 0 || len(sh.entries) == 1 && e != nil && len(e.counts) < limiter.MaxCharges
}

// room makes room for more weight of the subject, and reports whether there is enough (see Options.Subjects). If grows is
// true, the subject and its limits are known, and logs may grow to twice the capacity.
func (sh *shard) room(now algo.Instant, subject limiter.Subject, weight int, grows bool) bool {
	for !sh.fits(subject, weight) {
		first, ok := evict.Next(&sh.unused, now, sh.entries, subject, func(s limiter.Subject) (algo.Instant, bool) {
			switch e := sh.entries[s]; {
			case e == nil:
				return 0, false
			case e.full(now):
				return 0, true
			default:
				return e.used, e.light(now)
			}
		})
		if !ok {
			return grows && sh.weight+weight <= 2*sh.capacity
		}
		if e := sh.entries[first]; !e.full(now) {
			sh.evicted.Add()
		}
		sh.drop(first, sh.entries[first], func(*count) bool { return true })
	}
	return true
}

// full reports whether the subject has its full quota.
func (e *entry) full(now algo.Instant) bool {
	return !slices.ContainsFunc(e.counts, func(c count) bool { return c.limit.Machine().ResetAfter(c.state, now) > 0 })
}

// light reports whether the subject has used less than half of each of its limits, of the smallest part that a limit has,
// and no region has moved share.
func (e *entry) light(now algo.Instant) bool {
	return !slices.ContainsFunc(e.counts, func(c count) bool {
		moved, before := c.moved()
		m := c.limit.Machine()
		return moved != 0 || before != 0 || 2*m.Used(c.state, now) >= c.part()
	})
}
