package local

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Denials is the denial cache: the states that this process last saw in the store. The cache denies a flood without
// store calls. It also gives the store the last known state, from which the store builds its first write. It never
// admits a request. It is safe for concurrent use.
//
// The cache has two generations, each with at most half of the subjects. A subject with many limits or a long log
// counts as several subjects. A subject in use moves to the recent generation. When the recent generation is full,
// the cache evicts the older generation. The recent generation then becomes the older generation.
type Denials struct {
	ttl  time.Duration   // how long an entry may deny
	half int             // highest weight of the recent generation, in subjects
	intN func(n int) int // returns a random number below n

	mu            sync.Mutex
	recent, older map[string][]entry
	weight        int // sum of the weights of the subjects in the recent generation
}

// entry is the state of one limit, and the instant at which this process saw it. Limits of a new
// version of the rules have other machines, so they find no entry.
type entry struct {
	limit  Limit
	result algo.Result
	seen   algo.Instant
	open   *openCharge // nil unless a settlement charges the limit
	backOff
}

// openCharge is what the store counts at least while settlements charge a limit: the state from before them, with the
// charges that this process made since and those of settlements that have ended. A state that Record gets meanwhile can
// have the charge of a settlement or not.
//
// A charge that the store answers before a settlement, and that Record gets after it has ended, hides the settlement
// until the next charge.
type openCharge struct {
	least       algo.State
	since       algo.Instant // of least
	settlements int          // that have not ended
}

// maxOpen bounds the age of openCharge.least, which lacks the refunds since then.
const maxOpen = time.Second

// NewDenials returns a cache for the given number of subjects. An entry denies for at most ttl, and not
// at all if ttl is 0 or less. intN returns a random number below n.
func NewDenials(subjects int, ttl time.Duration, intN func(n int) int) *Denials {
	return &Denials{ttl: ttl, half: max(1, subjects/2), intN: intN, recent: map[string][]entry{}}
}

// Lookup writes the cached states of the charges to results, and the remaining back-offs to backOffs. It
// reports whether they deny at the instant now. If they do, Lookup clears results that are too old to deny.
func (d *Denials) Lookup(now algo.Instant, subject string, charges []Charge, results []algo.Result, backOffs []time.Duration) (denies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := d.of(subject)
	clear(backOffs)
	for i, c := range charges {
		e := find(entries, c.Limit)
		if e == nil {
			continue
		}
		results[i] = e.result
		if !c.Force {
			backOffs[i] = e.left(now, e.result, e.seen, c.Cost, d.ttl)
		}
		if !d.stale(now, e, backOffs[i]) && (backOffs[i] > 0 || !c.Force && e.result.RetryAfter(now, c.Cost) > 0) {
			e.of(c.Cost).early++
			denies = true
		}
	}
	if denies {
		for i, c := range charges {
			if e := find(entries, c.Limit); e != nil && d.stale(now, e, backOffs[i]) {
				results[i] = algo.Result{}
			}
		}
	}
	return denies
}

// stale reports whether e is too old to deny at the instant now.
func (d *Denials) stale(now algo.Instant, e *entry, backOff time.Duration) bool {
	age, most := now.Sub(e.seen), d.ttl
	if isSlots(e.limit) {
		most = min(most, slotsTTL)
	}
	return backOff == 0 && (age > most || -age > most)
}

// slotsTTL bounds how long the state of a concurrent limit may deny. Any process can release a slot at
// any time, so such a limit has no back-off either.
const slotsTTL = 100 * time.Millisecond

func isSlots(l Limit) bool {
	_, ok := l.Machine.(*algo.Slots)
	return ok
}

func (d *Denials) of(subject string) []entry {
	if entries, ok := d.recent[subject]; ok {
		return entries
	}
	return d.older[subject]
}

// find returns the entry of a limit; nil if there is none.
func find(entries []entry, limit Limit) *entry {
	for i := range entries {
		if entries[i].limit == limit {
			return &entries[i]
		}
	}
	return nil
}

// Last returns the cached state of a limit, of any age and under any version of its rules. The result
// has no Machine if there is no such state.
func (d *Denials) Last(subject string, id uint64) algo.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.of(subject) {
		if e.limit.ID == id {
			return e.result
		}
	}
	return algo.Result{}
}

// Forget deletes the entries of subject.
func (d *Denials) Forget(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if entries, ok := d.recent[subject]; ok {
		d.weight -= weight(entries)
		delete(d.recent, subject)
	}
	delete(d.older, subject)
}

// Expire makes the entries of subject too old to deny requests. Last still returns their states.
func (d *Denials) Expire(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := d.of(subject)
	for i := range entries {
		entries[i].expire()
	}
}

// expire makes e too old to deny requests.
func (e *entry) expire() { *e = entry{limit: e.limit, result: e.result, open: e.open} }

// BeginCharge begins a settlement that makes a forced charge on a limit in the store. Charge ends it.
func (d *Denials) BeginCharge(now algo.Instant, subject string, id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := d.of(subject)
	for i := range entries {
		e := &entries[i]
		if e.limit.ID != id || isSlots(e.limit) {
			continue
		}
		if e.open == nil {
			e.open = &openCharge{least: e.result.State, since: now}
		}
		e.open.settlements++
	}
}

// Charge adds a forced charge of the cost, which the store may have made, to the cached state of a limit, unless a state
// from after BeginCharge has it already. The state then is too old to deny requests, because the state of the store can
// differ.
func (d *Denials) Charge(now algo.Instant, subject string, id uint64, cost int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := d.of(subject)
	before := weight(entries)
	for i := range entries {
		if e := &entries[i]; e.limit.ID == id {
			e.charge(now, cost)
			e.expire()
		}
	}
	if _, recent := d.recent[subject]; recent {
		d.weight += weight(entries) - before
	}
}

// charge adds a forced charge to e, and ends a settlement.
func (e *entry) charge(now algo.Instant, cost int64) {
	m, state := e.result.Machine, &e.result.State
	o := e.open
	if o == nil {
		*state = m.Force(*state, now, cost)
		return
	}
	o.least = m.Force(o.least, now, cost)
	*state = algo.Merge(m, *state, o.least)
	if o.settlements--; o.settlements == 0 {
		e.open = nil
	}
}

// Release releases a number of slots in the cached state of a limit. charged is the result of the charge that
// took them.
func (d *Denials) Release(subject string, id uint64, slots int64, charged algo.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, recent := d.recent[subject]
	if !recent {
		entries = d.older[subject]
	}
	before := weight(entries)
	for i := range entries {
		if r := &entries[i].result; entries[i].limit.ID == id && algo.Refundable(r.Machine, charged.Machine) {
			r.State = r.Machine.Refund(r.State, charged.State, slots, 0)
		}
	}
	if recent {
		d.weight += weight(entries) - before
	}
}

// Record caches the results that this process saw at the instant now. taken reports whether the store took the
// charges.
func (d *Denials) Record(now algo.Instant, subject string, charges []Charge, results []algo.Result, taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, ok := d.recent[subject]
	if ok {
		d.weight -= weight(entries)
	} else {
		entries = d.older[subject]
	}
	size := len(entries)
	for i, c := range charges {
		entries = put(entries, d.next(now, find(entries, c.Limit), c, results[i], taken))
	}
	d.weight += weight(entries)
	if d.weight > d.half && len(d.recent) > 1 {
		d.older, d.recent, d.weight, ok = d.recent, make(map[string][]entry, len(d.recent)), weight(entries), false
	}
	if !ok || len(entries) != size {
		d.recent[subject] = entries
	}
}

// next returns the new entry of the limit of a charge. before is the previous entry, or nil.
func (d *Denials) next(now algo.Instant, before *entry, c Charge, r algo.Result, taken bool) entry {
	e := entry{limit: c.Limit, result: r, seen: now}
	e.result.Clamped = false // a clamp is reported once
	expected := false        // whether the cached state also refuses the charge
	if before != nil {
		e.backOff, e.open = before.backOff, before.open
		expected = before.result.RetryAfter(now, c.Cost) > 0
	}
	switch o := e.open; {
	case o == nil:
	case now.Sub(o.since) > maxOpen:
		o.least, o.since = r.State, now
	case taken:
		o.least = c.Machine.Force(o.least, now, c.Cost)
	}
	switch {
	case c.Force || c.Cost == 0 || d.ttl <= 0 || isSlots(c.Limit):
	case taken:
		e.admitted(now, c.Cost, d.ttl)
	case !expected && r.RetryAfter(now, c.Cost) > 0:
		e.refused(now, c.Cost, d.ttl, d.intN)
	}
	return e
}

// put replaces the entry of the same limit under any version of its rules, or adds an entry.
func put(entries []entry, e entry) []entry {
	for i := range entries {
		if entries[i].limit.ID == e.limit.ID {
			entries[i] = e
			return entries
		}
	}
	return append(entries, e)
}

// weight returns the number of subjects that a subject with these entries counts as.
func weight(entries []entry) int {
	w := max(1, (len(entries)+subjectLimits-1)/subjectLimits)
	for i := range entries {
		w += len(entries[i].result.State.Entries) / subjectLog
	}
	return w
}
