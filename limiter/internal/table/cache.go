package table

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Cache is the denial cache: the states that this process last saw in the store. The cache denies a flood without
// store calls. It also gives the store the last known state, from which the store builds its first write. It never
// admits a request. It is safe for concurrent use.
type Cache struct {
	*Table
	TTL  time.Duration   // how long a state may deny; not at all if it is 0 or less
	IntN func(n int) int // returns a random number below n
}

// maxOpen bounds the age of openCharge.least, which lacks the refunds since then.
const maxOpen = time.Second

// Lookup fills results with what the cache knows of the charges on one subject. The function line returns the cost of a
// charge in the request, and where its back-off belongs. Lookup reports whether they deny the request at the instant now. If
// they do, it clears results that are too old to deny. counts reports whether a denial counts as an early request.
func (d *Cache) Lookup(now algo.Instant, charges []domain.Charge, results []algo.Result, line func(i int) (int64, *time.Duration),
	counts bool) (denies bool) {
	d.Lock()
	defer d.Unlock()
	seen := d.Of(charges[0].Subject).seen
	for i := range charges {
		c := &charges[i]
		want, left := line(i)
		*left = 0
		e := find(seen, c.Limit)
		if e == nil {
			continue
		}
		r, own := c.Limit.View(e.Result), e.backOffOf(c.Limit)
		results[i] = r
		if own != nil && !c.Force {
			*left = own.left(now, r, e.at, want, d.TTL)
		}
		if !d.stale(now, e, *left) && (*left > 0 || !c.Force && r.RetryAfter(now, want) > 0) {
			if counts && own != nil {
				own.of(want).early++
			}
			denies = true
		}
	}
	if denies {
		for i := range charges {
			e := find(seen, charges[i].Limit)
			if _, left := line(i); e != nil && d.stale(now, e, *left) {
				results[i] = algo.Result{}
			}
		}
	}
	return denies
}

// stale reports whether e is too old to deny at the instant now.
func (d *Cache) stale(now algo.Instant, e *Seen, backOff time.Duration) bool {
	age, most := now.Sub(e.at), d.TTL
	if e.limit.Concurrent() {
		most = min(most, slotsTTL)
	}
	return backOff == 0 && (age > most || -age > most)
}

// slotsTTL bounds how long the state of a concurrent limit may deny. Any process can release a slot at
// any time, so such a limit has no back-off either.
const slotsTTL = 100 * time.Millisecond

// find returns the state of the count of a limit; nil if there is none.
func find(seen []Seen, limit *domain.Limit) *Seen {
	for i := range seen {
		if limit.Knows(seen[i].limit) {
			return &seen[i]
		}
	}
	return nil
}

// backOffOf returns the back-off of charges with the threshold of limit; nil if there is none.
func (s *Seen) backOffOf(limit *domain.Limit) *backOff {
	for i := range s.backOffs {
		if s.backOffs[i].most == limit.Machine().Capacity() {
			return &s.backOffs[i]
		}
	}
	return nil
}

// Last returns the cached state of a limit, of any age and under any version of its rules. The result has no Machine if
// there is no such state. For a limit with shards, the result is the sum of all shards at the instant now. The caller
// holds the lock.
func (d *Cache) Last(now algo.Instant, subject domain.Subject, limit *domain.Limit) (sum algo.Result) {
	if limit.Spread.Shards == 0 {
		return d.lastOf(subject, limit.ID)
	}
	for i := range limit.Parts() {
		if r := d.lastOf(subject.Shard(i), limit.ID); r.Machine != nil {
			sum = algo.Result{Machine: limit.Machine(), State: algo.Sum(limit.Machine(), r.Machine, sum.State, r.State, now)}
		}
	}
	return sum
}

func (d *Cache) lastOf(subject domain.Subject, id domain.ID) algo.Result {
	for _, s := range d.Of(subject).seen {
		if s.limit.ID == id {
			return s.Result
		}
	}
	return algo.Result{}
}

// Replace replaces the cached state of a limit by r. It denies no request.
func (d *Cache) Replace(subject domain.Subject, id domain.ID, r algo.Result) {
	d.change(subject, id, func(s *Seen) {
		s.Result = r
		s.expire()
	})
}

// change calls f with each cached state of a limit, under any version of its rules.
func (d *Cache) change(subject domain.Subject, id domain.ID, f func(*Seen)) {
	d.Lock()
	defer d.Unlock()
	e := d.Of(subject)
	for i := range e.seen {
		if s := &e.seen[i]; s.limit.ID == id {
			f(s)
		}
	}
	if len(e.seen) > 0 {
		d.Changed(e)
	}
}

// Expire makes the states of subject too old to deny requests. The method Last still returns them.
func (d *Cache) Expire(subject domain.Subject) {
	d.Lock()
	defer d.Unlock()
	seen := d.Of(subject).seen
	for i := range seen {
		seen[i].expire()
	}
}

// expire makes s too old to deny requests.
func (s *Seen) expire() { *s = Seen{limit: s.limit, Result: s.Result, open: s.open} }

// BeginCharge begins a settlement that makes a forced charge on a limit in the store. The method Charge ends it.
func (d *Cache) BeginCharge(now algo.Instant, subject domain.Subject, id domain.ID) {
	d.change(subject, id, func(s *Seen) {
		if s.limit.Concurrent() {
			return
		}
		if s.open == nil {
			s.open = &openCharge{least: s.Result.State, since: now}
		}
		s.open.settlements++
	})
}

// Charge adds a forced charge of the cost to the cached state of a limit, because the store may have made the charge.
// It adds nothing if a state from after BeginCharge already has the charge. Afterwards the cached state denies no
// requests, because the state of the store can differ.
func (d *Cache) Charge(now algo.Instant, subject domain.Subject, id domain.ID, cost int64) {
	d.change(subject, id, func(s *Seen) {
		s.charge(now, cost)
		s.expire()
	})
}

// charge adds a forced charge to s, and ends a settlement.
func (s *Seen) charge(now algo.Instant, cost int64) {
	m, state := s.Result.Machine, &s.Result.State
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

// Release releases a number of slots in the cached state of a limit. charged is the result of the charge that
// took them.
func (d *Cache) Release(subject domain.Subject, id domain.ID, slots int64, charged algo.Result) {
	d.change(subject, id, func(s *Seen) {
		if r := &s.Result; algo.Refundable(r.Machine, charged.Machine) {
			r.State = r.Machine.Refund(r.State, charged.State, slots, 0)
		}
	})
}

// Record caches the results of a call at the instant now. taken reports whether the store took the charges. The function
// least returns the charge of the request that needs the least room, of those that the call decided.
func (d *Cache) Record(now algo.Instant, charges []domain.Charge, results []algo.Result, taken bool, least func(i int) domain.Charge) {
	d.Lock()
	defer d.Unlock()
	e := d.Open(charges[0].Subject)
	for i := range charges {
		c := least(i)
		e.seen = put(e.seen, d.next(now, find(e.seen, c.Limit), c, charges[i].Cost, results[i], taken))
	}
	d.Changed(e)
}

// next returns the new state of the limit of the charge c. before is the previous state, or nil. cost is what the store
// charged.
func (d *Cache) next(now algo.Instant, before *Seen, c domain.Charge, cost int64, r algo.Result, taken bool) Seen {
	s := Seen{limit: c.Limit, Result: r, at: now}
	s.Result.Clamped = false // a clamp is reported once
	expected := false        // whether the cached state also refuses the charge
	if before != nil {
		s.backOffs, s.open = before.backOffs, before.open
		expected = c.Limit.View(before.Result).RetryAfter(now, c.Cost) > 0
	}
	switch o := s.open; {
	case o == nil:
	case now.Sub(o.since) > maxOpen:
		o.least, o.since = r.State, now
	case taken:
		o.least = c.Limit.Machine().Force(o.least, now, cost)
	}
	switch {
	case c.Force || c.Cost == 0 || d.TTL <= 0 || c.Limit.Concurrent():
	case taken:
		if own := s.backOffOf(c.Limit); own != nil {
			own.admitted(now, c.Cost, d.TTL)
		}
	case !expected && r.RetryAfter(now, c.Cost) > 0:
		s.refused(c.Limit, now, c.Cost, d)
	}
	return s
}

// refused records that the store refused the cost at the instant now.
func (s *Seen) refused(limit *domain.Limit, now algo.Instant, cost int64, d *Cache) {
	if s.backOffOf(limit) == nil {
		s.backOffs = append(s.backOffs, backOff{most: limit.Machine().Capacity()})
	}
	s.backOffOf(limit).refused(now, cost, d.TTL, d.IntN)
}

// put replaces the state of the same limit under any version of its rules, or adds a state.
func put(seen []Seen, s Seen) []Seen {
	for i := range seen {
		if seen[i].limit.ID == s.limit.ID {
			seen[i] = s
			return seen
		}
	}
	return append(seen, s)
}
