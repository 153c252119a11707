package limiter

import (
	"context"
	"errors"
)

// Reset deletes all state of the subjects of charges, in the store and in this process. That includes
// counts of an outage. Only ctx bounds the calls.
//
// Other processes can still deny from their caches for Options.CacheTTL, and serve leases for a second.
// They also keep counts that are only in their memory (Spread.Sync, Spread.Cells, OnErrorLocal). If this
// process is sending a count to the store at that moment, the count stays.
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
		if l.shares() {
			reset(location{inFallback, c.Limit.countedSubject(c.Subject)})
		}
	}
	return errors.Join(problems...)
}

// forget deletes the states, leases and counters of subject in this process. It keeps a tracker whose
// call is in flight.
func (l *Limiter) forget(subject Subject) {
	if l.shares() {
		l.denials.Forget(subject.String())
		l.trackers.forget(subject)
	}
}
