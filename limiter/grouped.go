package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter/internal/group"
)

// groupedStore makes the calls of groups.
type groupedStore struct{ *shared }

// newGroups returns groups whose calls s makes. timeout is that of a decision.
func newGroups(s *shared, timeout time.Duration) *group.Groups[*Limit] {
	return group.New(groupedStore{s}, group.Options{MaxCharges: MaxCharges, Span: MinWindow, Margin: timeout / 10})
}

// groupLimit returns l as groups know it.
func (l *Limit) groupLimit() group.Limit {
	return group.Limit{ID: uint64(l.ID), Version: l.Version, Machine: l.machine}
}

// Charge implements group.Store.
func (s groupedStore) Charge(ctx context.Context, c *group.Call[*Limit]) (taken bool, calls int, err error) {
	subject, charges := Subject{c.Subject}, make([]Charge, len(c.Charges))
	for i, sum := range c.Charges {
		charges[i] = Charge{Subject: subject, Limit: sum.Target, Cost: sum.Cost}
	}
	taken, calls, err = s.take(ctx, c, charges)
	if err != nil && c.Crowded() {
		err = s.crowded(err)
	}
	if busy(err) && !errors.Is(err, ErrItemThrottled) { // outlast has signalled that
		s.accounts.signal(c.At, charges, false)
	}
	if err == nil { // if the sum does not fit, the state refuses the smallest cost
		for i, least := range c.Least {
			charges[i].Cost = least
		}
		s.denials.remember(c.At, subject, charges, c.Results, taken)
	}
	return taken, calls, err
}

// take calls the store. It repeats a throttled call. A read that refuses the sum of the charges is an
// answer of the store.
func (s groupedStore) take(ctx context.Context, c *group.Call[*Limit], charges []Charge) (taken bool, calls int, err error) {
	defer func() {
		if v := recover(); v != nil { // no caller is above to recover
			taken, calls, err = false, 1, fmt.Errorf("%w: panic: %v", ErrUnavailable, v)
		}
	}()
	subject := charges[0].Subject
	taken, calls, err = s.ask(ctx, c.At, subject, charges, c.Results)
	if !errors.Is(err, ErrItemThrottled) {
		return taken, calls, err
	}
	a := &attempt{now: c.At, charges: charges, results: c.Results, err: err, calls: calls}
	a.take = func() (bool, error) {
		taken, calls, err := s.ask(ctx, c.At, subject, charges, c.Results)
		a.calls += calls
		return taken, err
	}
	a.refuses = func() bool {
		for i, charge := range charges {
			if c.Results[i].RetryAfter(c.At, charge.Cost) > 0 {
				return true
			}
		}
		return false
	}
	taken, err = s.outlast(ctx, a)
	return taken, a.calls, err
}
