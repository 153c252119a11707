package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// denials is the denial cache: the states that this process last saw in the store. The cache denies a flood without
// store calls. It also gives the store the last known state, from which the store builds its first write. It never
// admits a request. It is safe for concurrent use.
type denials struct {
	*table
	ttl  time.Duration   // how long a state may deny; not at all if it is 0 or less
	intN func(n int) int // returns a random number below n
}

// maxOpen bounds the age of openCharge.least, which lacks the refunds since then.
const maxOpen = time.Second

// lookup fills the results and back-offs of b with what the cache knows. It reports whether they deny at the instant
// now. If they do, lookup clears results that are too old to deny.
func (d *denials) lookup(now algo.Instant, b *batch) (denies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.of(b.charges[0].Subject).seen
	for i, c := range b.charges {
		task := &b.tasks[i]
		task.backOff = 0
		e := find(seen, c.Limit)
		if e == nil {
			continue
		}
		r, own := c.Limit.view(e.result), e.backOffOf(c.Limit)
		b.results[i] = r
		if !c.Force {
			task.backOff = own.left(now, r, e.seen, c.Cost, d.ttl)
		}
		if !d.stale(now, e, task.backOff) && (task.backOff > 0 || !c.Force && r.RetryAfter(now, c.Cost) > 0) {
			own.of(c.Cost).early++
			denies = true
		}
	}
	if denies {
		for i, c := range b.charges {
			if e := find(seen, c.Limit); e != nil && d.stale(now, e, b.tasks[i].backOff) {
				b.results[i] = algo.Result{}
			}
		}
	}
	return denies
}

// stale reports whether e is too old to deny at the instant now.
func (d *denials) stale(now algo.Instant, e *seenState, backOff time.Duration) bool {
	age, most := now.Sub(e.seen), d.ttl
	if e.limit.concurrent() {
		most = min(most, slotsTTL)
	}
	return backOff == 0 && (age > most || -age > most)
}

// slotsTTL bounds how long the state of a concurrent limit may deny. Any process can release a slot at
// any time, so such a limit has no back-off either.
const slotsTTL = 100 * time.Millisecond

// find returns the state of the count of a limit; nil if there is none.
func find(seen []seenState, limit *Limit) *seenState {
	for i := range seen {
		if limit.knows(seen[i].limit) {
			return &seen[i]
		}
	}
	return nil
}

// backOffOf returns the back-off of charges with the threshold of limit. If there is none, it returns an unused one.
func (s *seenState) backOffOf(limit *Limit) *backOff {
	most := limit.machine.Capacity()
	if most == s.limit.machine.Capacity() {
		return &s.backOff
	}
	for i := range s.tiers {
		if s.tiers[i].most == most {
			return &s.tiers[i].backOff
		}
	}
	return &backOff{}
}

// turn makes limit the limit of s, and its back-off that of s.
func (s *seenState) turn(limit *Limit) {
	from, most := s.limit.machine.Capacity(), limit.machine.Capacity()
	own := *s.backOffOf(limit)
	if from != most {
		s.tiers = slices.DeleteFunc(s.tiers, func(t tierBackOff) bool { return t.most == most })
		if s.backOff != (backOff{}) {
			s.tiers = append(s.tiers, tierBackOff{from, s.backOff})
		}
	}
	s.limit, s.backOff = limit, own
}

// last returns the cached state of a limit, of any age and under any version of its rules. The result has no Machine if
// there is no such state. For a limit with shards, the result is the sum of all shards at the instant now. The caller
// holds the lock.
func (d *denials) last(now algo.Instant, subject Subject, limit *Limit) (sum algo.Result) {
	if limit.Spread.Shards == 0 {
		return d.lastOf(subject, limit.ID)
	}
	for i := range limit.parts {
		if r := d.lastOf(subject.shard(i), limit.ID); r.Machine != nil {
			sum = algo.Result{Machine: limit.machine, State: algo.Sum(limit.machine, r.Machine, sum.State, r.State, now)}
		}
	}
	return sum
}

func (d *denials) lastOf(subject Subject, id ID) algo.Result {
	for _, s := range d.of(subject).seen {
		if s.limit.ID == id {
			return s.result
		}
	}
	return algo.Result{}
}

// change calls f with each cached state of a limit, under any version of its rules.
func (d *denials) change(subject Subject, id ID, f func(*seenState)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.of(subject)
	for i := range e.seen {
		if s := &e.seen[i]; s.limit.ID == id {
			f(s)
		}
	}
	if len(e.seen) > 0 {
		d.changed(e)
	}
}

// expire makes the states of subject too old to deny requests. The method last still returns them.
func (d *denials) expire(subject Subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.of(subject).seen
	for i := range seen {
		seen[i].expire()
	}
}

// expire makes s too old to deny requests.
func (s *seenState) expire() { *s = seenState{limit: s.limit, result: s.result, open: s.open} }

// beginCharge begins a settlement that makes a forced charge on a limit in the store. The method charge ends it.
func (d *denials) beginCharge(now algo.Instant, subject Subject, id ID) {
	d.change(subject, id, func(s *seenState) {
		if s.limit.concurrent() {
			return
		}
		if s.open == nil {
			s.open = &openCharge{least: s.result.State, since: now}
		}
		s.open.settlements++
	})
}

// charge adds a forced charge of the cost to the cached state of a limit, because the store may have made the charge.
// It adds nothing if a state from after beginCharge already has the charge. Afterwards the cached state denies no
// requests, because the state of the store can differ.
func (d *denials) charge(now algo.Instant, subject Subject, id ID, cost int64) {
	d.change(subject, id, func(s *seenState) {
		s.charge(now, cost)
		s.expire()
	})
}

// charge adds a forced charge to s, and ends a settlement.
func (s *seenState) charge(now algo.Instant, cost int64) {
	m, state := s.result.Machine, &s.result.State
	o := s.open
	if o == nil {
		*state = m.Force(*state, now, cost)
		return
	}
	o.least = m.Force(o.least, now, cost)
	*state = algo.Merge(m, *state, o.least)
	o.settlements--
	if o.settlements == 0 {
		s.open = nil
	}
}

// release releases a number of slots in the cached state of a limit. charged is the result of the charge that
// took them.
func (d *denials) release(subject Subject, id ID, slots int64, charged algo.Result) {
	d.change(subject, id, func(s *seenState) {
		if r := &s.result; algo.Refundable(r.Machine, charged.Machine) {
			r.State = r.Machine.Refund(r.State, charged.State, slots, 0)
		}
	})
}

// record caches the results that this process saw at the instant now. taken reports whether the store took the
// charges.
func (d *denials) record(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, taken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.open(subject)
	for i, c := range charges {
		e.seen = put(e.seen, d.next(now, find(e.seen, c.Limit), c, results[i], taken))
	}
	d.changed(e)
}

// next returns the new state of the limit of a charge. before is the previous state, or nil.
func (d *denials) next(now algo.Instant, before *seenState, c Charge, r algo.Result, taken bool) seenState {
	s := seenState{limit: c.Limit, result: r, seen: now}
	s.result.Clamped = false // a clamp is reported once
	expected := false        // whether the cached state also refuses the charge
	if before != nil {
		before.turn(c.Limit)
		s.backOff, s.tiers, s.open = before.backOff, before.tiers, before.open
		expected = c.Limit.view(before.result).RetryAfter(now, c.Cost) > 0
	}
	switch o := s.open; {
	case o == nil:
	case now.Sub(o.since) > maxOpen:
		o.least, o.since = r.State, now
	case taken:
		o.least = c.Limit.machine.Force(o.least, now, c.Cost)
	}
	switch {
	case c.Force || c.Cost == 0 || d.ttl <= 0 || c.Limit.concurrent():
	case taken:
		s.admitted(now, c.Cost, d.ttl)
	case !expected && r.RetryAfter(now, c.Cost) > 0:
		s.refused(now, c.Cost, d.ttl, d.intN)
	}
	return s
}

// put replaces the state of the same limit under any version of its rules, or adds a state.
func put(seen []seenState, s seenState) []seenState {
	for i := range seen {
		if seen[i].limit.ID == s.limit.ID {
			seen[i] = s
			return seen
		}
	}
	return append(seen, s)
}
