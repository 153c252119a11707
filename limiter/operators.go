package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Usage is what a subject has used of one limit at an instant. Operators read it. There is a Usage for
// each charge, while a Decision reports only the strictest limit.
type Usage struct {
	Charge
	// Known is false if the store holds no state of the limit. The limit then has its full quota.
	Known bool
	// Capacity and Remaining are in requests: 0 <= Remaining <= Capacity. For a limit with shards,
	// they are sums over all shards. For Spread.Sync, they are averages of four seconds.
	Capacity, Remaining int64
	// Share is what this region has of a limit that regions share: its base share, and what moved to it. Remaining is what
	// is left of it. 0 for other limits.
	Share int64
	// Debt is what was charged beyond the capacity, in requests.
	Debt int64
	// RetryAfter is the time until the charge would be allowed if nothing else is charged. 0 means now, and
	// algo.Never means never. For a limit with shards, it is the shortest time of all shards.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Superseded reports that other parameters than Limit's own decide; see Decision.Superseded.
	Superseded bool
}

// Inspect returns the usage of the limits of the charges at the time now, in the order of the charges. It reads
// each subject once and writes nothing. It reports the state of the store. Leased quota counts as
// charged. Charges that processes have counted since their last synchronization are missing. The charges may be on
// several limits that keep one count (Rate.Of).
//
// The error is the error of the store, or wraps ErrInvalidCharge.
func (l *Limiter) Inspect(ctx context.Context, now time.Time, charges []Charge) ([]Usage, error) {
	if err := domain.CheckEach(now, charges, l.home); err != nil {
		return nil, err
	}
	held, usages := map[Subject][]Entry{}, make([]Usage, len(charges))
	for i, c := range charges {
		s := &usages[i]
		s.Charge = c
		subjects, limits := l.locate(c)
		for j, subject := range subjects {
			entries, ok := held[subject]
			if !ok {
				var err error
				entries, err = l.store.Inspect(ctx, subject)
				if err != nil {
					return nil, err
				}
				held[subject] = entries
			}
			s.add(limits[j], entries, algo.InstantOf(now), j == 0)
		}
		if c.Limit.Syncs() != nil && limits[0] != c.Limit {
			s.Remaining = int64(float64(s.Remaining) / float64(s.Capacity) * float64(c.Limit.Machine().Capacity()))
			s.Capacity = c.Limit.Machine().Capacity()
		}
	}
	return usages, nil
}

// locate returns the subjects and limits under which the store counts a charge. If the limit has shards, these are the
// subjects and limits of the shards.
func (l *Limiter) locate(c Charge) (subjects []Subject, limits []*Limit) {
	switch {
	case c.Limit.Spread.Shards > 0 && l.remote:
		return c.Limit.Subjects(c.Subject), c.Limit.Parts()
	case c.Limit.Syncs() != nil && l.remote:
		return []Subject{c.Limit.CountedSubject(c.Subject)}, []*Limit{c.Limit.Syncs().Admitted}
	}
	return []Subject{c.Limit.CountedSubject(c.Subject)}, []*Limit{c.Limit}
}

// add adds the usage that a store holds for a limit: the limit of s, or a part of it.
func (s *Usage) add(limit *Limit, entries []Entry, now algo.Instant, first bool) {
	var held Held
	for _, e := range entries {
		if e.ID == limit.ID {
			held = e.Held
		}
	}
	s.Known = s.Known || held.Machine != nil
	held, _ = held.Current(limit, now)
	m := held.Machine
	s.Capacity += m.Capacity()
	s.Remaining += m.Remaining(held.State, now)
	used := m.Used(held.State, now)
	s.Share += algo.ShareOf(m, held.State, now)
	s.Debt += max(0, used-m.Capacity())
	if wait := held.RetryAfter(now, s.Cost); first || wait < s.RetryAfter {
		s.RetryAfter = wait
	}
	s.ResetAfter = max(s.ResetAfter, m.ResetAfter(held.State, now))
	s.Superseded = s.Superseded || !limit.Is(m)
}

// Reset deletes all state of the subjects of the charges, in the store and in this process, including counts of
// an outage. Only ctx bounds the calls.
//
// Other processes can still deny from their caches for Options.CacheTTL, and serve leases for a second. They also
// keep counts that are only in their memory (Spread.Sync, OnErrorLocal). If this process is sending a
// count to the store at that moment, the count stays.
func (l *Limiter) Reset(ctx context.Context, charges []Charge) error {
	var problems []error
	done := map[Subject]bool{}
	for _, c := range charges {
		subjects, _ := l.locate(c)
		for _, subject := range subjects {
			if done[subject] {
				continue
			}
			done[subject] = true
			l.table.Forget(subject) // forget first, so that no count reaches the store after its reset
			problems = append(problems, l.store.Reset(ctx, subject))
			l.table.Forget(subject)
		}
		if l.remote {
			l.fallback.Reset(c.Limit.CountedSubject(c.Subject))
		}
	}
	return errors.Join(problems...)
}
