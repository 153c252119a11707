package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Usage is what a subject has used of one limit at an instant. Operators read it. There is a Usage for
// each charge, while a Decision reports only the strictest limit.
type Usage struct {
	Charge
	// Known is false if the store holds no state of the limit. The limit then has its full quota.
	Known bool
	// Capacity and Remaining are in requests: 0 <= Remaining <= Capacity. For a limit with shards,
	// they are sums over all shards. For Spread.Adaptive, they are averages of four seconds.
	Capacity, Remaining int64
	// Debt is what was charged beyond the capacity, in requests.
	Debt int64
	// RetryAfter is the time until the charge would be allowed if nothing else is charged. 0 means now, and
	// algo.Never means never. For a limit with shards, it is the shortest time of all shards.
	RetryAfter time.Duration
	// ResetAfter is the time to full quota with no further traffic.
	ResetAfter time.Duration
	// Superseded reports that parameters other than those of Limit decide; see Decision.Superseded.
	Superseded bool
}

// Inspect returns the usage of the limits of the charges at the time now, in the order of the charges. It reads
// each subject once and writes nothing. It reports the state of the store, and of Options.Cells for limits with
// Spread.Cells. Leased quota counts as charged. Charges that processes have counted since their last
// synchronization are missing.
//
// The error is the error of the store, or wraps ErrInvalidCharge.
func (l *Limiter) Inspect(ctx context.Context, now time.Time, charges []Charge) ([]Usage, error) {
	if err := check(now, charges, l.cells != nil); err != nil {
		return nil, err
	}
	held, usages := map[location][]Entry{}, make([]Usage, len(charges))
	for i, c := range charges {
		s := &usages[i]
		s.Charge = c
		role, subjects, limits := l.locate(c)
		for j, subject := range subjects {
			at := location{role, subject}
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

// storeRole is the purpose for which a Limiter uses a store.
type storeRole int

const (
	inStore    storeRole = iota // the subject is in Limiter.store
	inCells                     // the subject is in Options.Cells
	inFallback                  // the subject is in Limiter.fallback
)

// location is a subject in one of the stores.
type location struct {
	role    storeRole
	subject Subject
}

func (l *Limiter) storeOf(r storeRole) Store {
	switch {
	case r == inFallback:
		return l.fallback
	case r == inCells && l.cells != nil:
		return l.cells
	}
	return l.store
}

// locate returns the store that counts a charge, with its subjects and limits there. If the limit has
// shards or cells, these are the subjects and limits of the parts.
func (l *Limiter) locate(c Charge) (r storeRole, subjects []Subject, limits []*Limit) {
	switch {
	case c.Limit.Spread.Cells > 0:
		return inCells, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.Spread.Shards > 0 && l.sharesStore():
		return inStore, c.Limit.Subjects(c.Subject), c.Limit.parts
	case c.Limit.reports != nil && l.sharesStore():
		return inStore, []Subject{c.Limit.countedSubject(c.Subject)}, []*Limit{c.Limit.reports.admitted}
	}
	return inStore, []Subject{c.Limit.countedSubject(c.Subject)}, []*Limit{c.Limit}
}

// add adds the usage that a store holds for a limit: the limit of s, or a part of it.
func (s *Usage) add(limit *Limit, entries []Entry, now algo.Instant, first bool) {
	var held Held
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == limit.ID }); i >= 0 {
		held, s.Known = entries[i].Held, true
	}
	held, _ = held.Settle(limit, now)
	m := held.Machine
	s.Capacity += m.Capacity()
	s.Remaining += m.Remaining(held.State, now)
	s.Debt += max(0, m.Used(held.State, now)-m.Capacity())
	if wait := held.RetryAfter(now, s.Cost); first || wait < s.RetryAfter {
		s.RetryAfter = wait
	}
	s.ResetAfter = max(s.ResetAfter, m.ResetAfter(held.State, now))
	s.Superseded = s.Superseded || m.Fingerprint() != limit.fingerprint
}

// Reset deletes all state of the subjects of the charges, in the store and in this process, including counts of
// an outage. Only ctx bounds the calls.
//
// Other processes can still deny from their caches for Options.CacheTTL, and serve leases for a second. They also
// keep counts that are only in their memory (Spread.Sync, Spread.Cells, OnErrorLocal). If this process is sending a
// count to the store at that moment, the count stays.
func (l *Limiter) Reset(ctx context.Context, charges []Charge) error {
	var problems []error
	done := map[location]bool{}
	reset := func(at location) {
		if !done[at] {
			done[at] = true
			problems = append(problems, l.storeOf(at.role).Reset(ctx, at.subject))
		}
	}
	for _, c := range charges {
		role, subjects, _ := l.locate(c)
		for _, subject := range subjects {
			l.forget(subject) // forget first, so that no count reaches the store after its reset
			reset(location{role, subject})
			l.forget(subject)
		}
		if l.sharesStore() {
			reset(location{inFallback, c.Limit.countedSubject(c.Subject)})
		}
	}
	return errors.Join(problems...)
}

// forget deletes the states, leases and counters of subject in this process. It keeps trackers whose call is in
// flight.
func (l *Limiter) forget(subject Subject) {
	if l.sharesStore() {
		l.denials.Forget(subject.String())
		l.trackers.forget(subject)
	}
}
