package limiter

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Usage is how one limit stands for a subject at an instant, for operators. Unlike a
// Decision, which speaks of the strictest limit alone, there is one for each charge.
type Usage struct {
	Charge
	// Known is false if the store holds nothing of the limit: it is at full quota.
	Known bool
	// Capacity and Remaining are in requests: 0 <= Remaining <= Capacity. Of a limit with
	// shards they are the sums of all, of one with adaptive shares the average of four seconds.
	Capacity, Remaining int64
	// RetryAfter is how long until the charge would pass if nobody else is charged; 0: it
	// would now; algo.Never: it never will. Of a limit with shards it is the shortest.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Superseded says that other parameters than those of Limit decide, as in a Decision.
	Superseded bool
}

// Inspect returns how the limits of charges stand at now, in their order. It asks the store
// for each subject once, and writes nothing. It tells what is in the store, and of limits
// with Spread.Cells what is in Options.Cells: what environments hold of leases counts as
// charged, and what they counted since they synchronized is not in it.
//
// An error is the store's, or a mistake in charges and wraps ErrInvalidCharge.
func (l *Limiter) Inspect(ctx context.Context, now time.Time, charges []Charge) ([]Usage, error) {
	if err := l.check(now, charges); err != nil {
		return nil, err
	}
	held, standings := map[place][]Entry{}, make([]Usage, len(charges))
	for i, c := range charges {
		s := &standings[i]
		s.Charge = c
		role, subjects, limits := l.whereabouts(c)
		for j, subject := range subjects {
			at := place{role, subject}
			entries, ok := held[at]
			if !ok {
				var err error
				if entries, err = l.storeOf(role).Inspect(ctx, subject); err != nil {
					return nil, err
				}
				held[at] = entries
			}
			s.add(limits[j], entries, algo.InstantOf(now), j == 0)
		}
		if limits[0] == c.Limit.admittedApart() {
			s.Remaining = int64(float64(s.Remaining) / float64(s.Capacity) * float64(c.Limit.machine.Capacity()))
			s.Capacity = c.Limit.machine.Capacity()
		}
	}
	return standings, nil
}

// role is what a Limiter has a store for.
type role int

const (
	shared  role = iota // Limiter.store
	ofCells             // Options.Cells
	ofLocal             // Limiter.local
)

// place is a subject in one of the stores.
type place struct {
	role    role
	subject Subject
}

func (l *Limiter) storeOf(r role) Store {
	switch {
	case r == ofLocal:
		return l.fallback
	case r == ofCells && l.cells != nil:
		return l.cells
	}
	return l.store
}

// whereabouts returns which store counts a charge, in which subjects, and by which limits:
// those of the parts, if it is divided.
func (l *Limiter) whereabouts(c Charge) (r role, subjects []Subject, limits []*Limit) {
	switch {
	case c.Limit.Spread.Cells > 0:
		return ofCells, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.Spread.Shards > 0 && l.shares():
		return shared, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.admittedApart() != nil && l.shares():
		return shared, []Subject{c.Limit.counted(c.Subject)}, []*Limit{c.Limit.admittedApart()}
	}
	return shared, []Subject{c.Limit.counted(c.Subject)}, []*Limit{c.Limit}
}

// add adds what a store holds of limit, which is all of the standing or a part of it.
func (s *Usage) add(limit *Limit, entries []Entry, now algo.Instant, first bool) {
	var held Held
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == limit.ID }); i >= 0 {
		held, s.Known = entries[i].Held, true
	}
	held, _ = held.Settle(limit, now)
	m := held.Machine
	s.Capacity += m.Capacity()
	s.Remaining += m.Remaining(held.State, now)
	if wait := held.RetryAfter(now, s.Cost); first || wait < s.RetryAfter {
		s.RetryAfter = wait
	}
	s.ResetAfter = max(s.ResetAfter, m.ResetAfter(held.State, now))
	s.Superseded = s.Superseded || m.Fingerprint() != limit.fingerprint
}
