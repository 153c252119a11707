package limiter

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Usage is what a subject has used of one limit at an instant, for operators. There is one for each
// charge; a Decision reports only the strictest limit.
type Usage struct {
	Charge
	// Known is false if the store holds no state of the limit: it is at full quota.
	Known bool
	// Capacity and Remaining are in requests: 0 <= Remaining <= Capacity. For a limit with shards
	// they are sums of all shards, for Spread.Adaptive an average of four seconds.
	Capacity, Remaining int64
	// RetryAfter is how long until the charge would be allowed if nothing else is charged; 0: now;
	// algo.Never: never. For a limit with shards it is the shortest.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Superseded reports that other parameters than those of Limit decide, as in a Decision.
	Superseded bool
}

// Inspect returns the usage of the limits of charges at now, in their order. It reads each subject
// once and writes nothing. It reports the state of the store, and of Options.Cells for limits with
// Spread.Cells. Leased quota counts as charged; what processes counted since their last
// synchronization is missing.
//
// The error is that of the store, or wraps ErrInvalidCharge.
func (l *Limiter) Inspect(ctx context.Context, now time.Time, charges []Charge) ([]Usage, error) {
	if err := l.check(now, charges); err != nil {
		return nil, err
	}
	held, usages := map[place][]Entry{}, make([]Usage, len(charges))
	for i, c := range charges {
		s := &usages[i]
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
		if c.Limit.reports != nil && limits[0] != c.Limit {
			s.Remaining = int64(float64(s.Remaining) / float64(s.Capacity) * float64(c.Limit.machine.Capacity()))
			s.Capacity = c.Limit.machine.Capacity()
		}
	}
	return usages, nil
}

// role is the purpose of a store of a Limiter.
type role int

const (
	inStore    role = iota // Limiter.store
	inCells                // Options.Cells
	inFallback             // Limiter.fallback
)

// place is a subject in one of the stores.
type place struct {
	role    role
	subject Subject
}

func (l *Limiter) storeOf(r role) Store {
	switch {
	case r == inFallback:
		return l.fallback
	case r == inCells && l.cells != nil:
		return l.cells
	}
	return l.store
}

// whereabouts returns the store that counts a charge, with its subjects and limits there. If the
// limit is divided, these are those of the parts.
func (l *Limiter) whereabouts(c Charge) (r role, subjects []Subject, limits []*Limit) {
	switch {
	case c.Limit.Spread.Cells > 0:
		return inCells, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.Spread.Shards > 0 && l.shares():
		return inStore, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.reports != nil && l.shares():
		return inStore, []Subject{c.Limit.counted(c.Subject)}, []*Limit{c.Limit.reports.admitted}
	}
	return inStore, []Subject{c.Limit.counted(c.Subject)}, []*Limit{c.Limit}
}

// add adds what a store holds of limit: all of the usage, or a part of it.
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
