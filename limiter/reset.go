package limiter

import (
	"context"
	"errors"
)

// Reset deletes all state of the subjects of charges, in the store and in this process, including
// what this process counted during an outage. Other processes may deny from their caches for
// Options.Trust and serve leases for a second. They keep what they count by themselves
// (Spread.Sync, Spread.Cells, OnErrorLocal), and this process keeps what it is sending to the store
// at that moment. Only ctx bounds the calls.
func (l *Limiter) Reset(ctx context.Context, charges []Charge) error {
	var problems []error
	done := map[place]bool{}
	reset := func(at place) {
		if !done[at] {
			done[at] = true
			problems = append(problems, l.storeOf(at.role).Reset(ctx, at.subject))
		}
	}
	for _, c := range charges {
		role, subjects, _ := l.whereabouts(c)
		for _, subject := range subjects {
			l.forget(subject) // first, so that nothing pending reaches the store after the reset
			reset(place{role, subject})
			l.forget(subject)
		}
		if l.shares() {
			reset(place{inFallback, c.Limit.counted(c.Subject)})
		}
	}
	return errors.Join(problems...)
}

// forget deletes what this process keeps of subject, unless a call for it is in flight.
func (l *Limiter) forget(subject Subject) {
	if l.shares() {
		l.denials.Forget(subject.name)
		l.accounts.forget(subject)
	}
}
