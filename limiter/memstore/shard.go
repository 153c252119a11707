package memstore

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// shard is a part of the subjects under one lock.
type shard struct {
	mu       sync.Mutex
	entries  map[limiter.Subject]*entry
	weight   int // sum of the weights of all counts
	capacity int
	// due is the instant at which the next subject reaches full quota; an earlier sweep would find nothing.
	due, swept algo.Instant
}

// entry is what a shard holds of one subject.
type entry struct{ counts []count }

// count is the state of one limit of a subject. The limit has the parameters and the version of the state.
type count struct {
	limit *limiter.Limit
	state algo.State
	skew  algo.Skew
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
	return limiter.Held{Result: algo.Result{Machine: c.limit.Machine(), State: c.state}, Version: c.limit.Version, Skew: c.skew}
}

// moved returns the share that moved, of a limit that regions share.
func (c *count) moved() (present, before int64) {
	if _, ok := c.limit.Machine().(*algo.Shared); ok {
		present, before = c.state.Moved(), c.state.MovedBefore()
	}
	return present, before
}

// current sets r to the state that decides c (limiter.Held.Current), and returns its count; nil if the limit was never
// charged. If Held.Current changed the state and the cost is not 0, current stores it in place of the counts of c.Limit.Tiers.
func (sh *shard) current(e *entry, c *limiter.Charge, now algo.Instant, r *algo.Result) (at *count) {
	var held limiter.Held
	own := c.Limit
	at = e.find(c.Limit.ID)
	if at != nil {
		own = at.limit
		if m := c.Limit.Machine(); own == c.Limit && len(own.Tiers) == 0 && !m.Ahead(at.state, now) { // nothing to change
			r.Machine, r.State, r.Clamped = m, at.state, false
			return at
		}
		held = at.held()
		if same(own, c.Limit) {
			held.Machine = c.Limit.Machine() // so that Current need not compare the fingerprints
		}
	}
	var tiers []limiter.Held
	for _, id := range c.Limit.Tiers {
		if other := e.find(id); other != nil {
			tiers = append(tiers, other.held())
			if at == nil {
				at = other
			}
		}
	}
	held, changed := held.Current(c.Limit, now, tiers...)
	*r = held.Result
	if !changed || c.Cost == 0 {
		return at
	}
	if held.Machine == c.Limit.Machine() && held.Version == c.Limit.Version {
		own = c.Limit
	}
	sh.replace(at, count{own, held.State, held.Skew})
	if len(tiers) > 0 {
		e.counts = slices.DeleteFunc(e.counts, func(other count) bool {
			ends := slices.Contains(c.Limit.Tiers, other.limit.ID)
			if ends {
				sh.weight -= weight(other.limit)
			}
			return ends
		})
		at = e.find(own.ID)
	}
	sh.sooner(at)
	return at
}

// replace stores another count in the place of at.
func (sh *shard) replace(at *count, c count) {
	sh.weight += weight(c.limit) - weight(at.limit)
	*at = c
}

// put stores the state of a charged limit, and returns the entry of the subject. e is its entry until now; nil if there is
// none.
func (sh *shard) put(e *entry, subject limiter.Subject, limit *limiter.Limit, s algo.State, now algo.Instant) *entry {
	if at := e.find(limit.ID); at != nil {
		at.state = s
		return e
	}
	if e == nil {
		e = &entry{}
		sh.entries[subject.Clone()] = e // the subject can share memory with a large request text
	}
	e.counts = append(e.counts, count{limit: limit, state: s})
	sh.weight += weight(limit)
	sh.due = min(sh.due, now.Add(limit.Machine().ResetAfter(s, now)))
	return e
}

// drop removes the counts that the function ends selects, and the entry if it is then empty.
func (sh *shard) drop(subject limiter.Subject, e *entry, ends func(*count) bool) {
	kept := e.counts[:0]
	for i := range e.counts {
		if c := &e.counts[i]; ends(c) {
			sh.weight -= weight(c.limit)
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

// sooner lowers sh.due to the instant at which a count reaches full quota. A new state can reach it earlier than the
// previous one.
func (sh *shard) sooner(at *count) {
	sh.due = min(sh.due, algo.Instant(at.limit.Machine().ResetAfter(at.state, 0)))
}

// sweepPause is the least time between two sweeps of a shard. Otherwise each request in a flood of new
// subjects would cause a sweep.
const sweepPause = time.Second

// slotEntries is how many entries of logs count as much as a limit.
const slotEntries = 8

// weight returns the weight of a count: one, plus the memory of all entries that a log may hold.
func weight(limit *limiter.Limit) int {
	return 1 + int(limit.Machine().MaxEntries()+slotEntries-1)/slotEntries
}

// fits reports whether the shard has room for more limits of the subject with this weight. If the shard
// holds no other subject, it has room for MaxCharges limits of any weight.
func (sh *shard) fits(subject limiter.Subject, weight int) bool {
	e := sh.entries[subject]
	return sh.weight+weight <= sh.capacity || len(sh.entries) == 0 || len(sh.entries) == 1 && e != nil && len(e.counts) < limiter.MaxCharges
}

// room makes room for new limits of the subject, and reports whether they fit. weight is the sum of
// their weights. If the shard has no space left, room first removes other subjects that have their full
// quota.
func (sh *shard) room(now algo.Instant, subject limiter.Subject, weight int) bool {
	if sh.fits(subject, weight) {
		return true
	}
	if pause := now.Sub(sh.swept); now < sh.due || pause >= 0 && pause < sweepPause {
		return false
	}
	sh.swept, sh.due = now, math.MaxInt64
	for other, e := range sh.entries {
		full := now
		for i := range e.counts {
			full = max(full, now.Add(e.counts[i].limit.Machine().ResetAfter(e.counts[i].state, now)))
		}
		switch {
		case other == subject: // its limits are being charged
		case full > now:
			sh.due = min(sh.due, full)
		default:
			sh.drop(other, e, func(*count) bool { return true })
		}
	}
	return sh.fits(subject, weight)
}
