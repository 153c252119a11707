package limiter

import (
	"context"
	"errors"
	"time"

	"github.com/weir-limits/weir/limiter/internal/group"
)

type groupedStore struct{ *shared }

// newGroups returns groups that call the store of s. timeout is the timeout of a decision.
func newGroups(s *shared, timeout time.Duration) *group.Groups[Subject, *Limit] {
	return group.New(groupedStore{s}, group.Options{MaxCharges: MaxCharges, Span: MinWindow, Margin: timeout / 10})
}

// groupLimit returns l for package group. Limits that keep one count have one ID, so a call charges only one of them.
func (l *Limit) groupLimit() group.Limit {
	id := l.ID
	for _, other := range l.Tiers {
		id = min(id, other)
	}
	return group.Limit{ID: uint64(id), Version: l.Version, Machine: l.machine}
}

// Charge implements group.Store.
func (s groupedStore) Charge(ctx context.Context, c *group.Call[Subject, *Limit]) (taken bool, calls int, err error) {
	subject, charges := c.Subject, make([]Charge, len(c.Charges))
	for i, sum := range c.Charges {
		charges[i] = Charge{Subject: subject, Limit: sum.Target, Cost: sum.Cost}
	}
	taken, calls, err = s.take(ctx, c, charges)
	if err != nil && c.Crowded() {
		err = s.crowdedError(err)
	}
	if busy(err) && !errors.Is(err, ErrItemThrottled) { // for a throttled item, retryThrottled has raised the pressure already
		s.trackers.raisePressure(c.At, charges, false)
	}
	// If the store refused the sum of several requests, the cache records a refusal of the smallest cost.
	if err == nil {
		for i, least := range c.Least {
			charges[i].Cost = least
		}
		s.denials.record(c.At, subject, charges, c.Results, taken)
	}
	return taken, calls, err
}

// take makes the call of a group, and repeats it if it is throttled. If a read shows that the state refuses the
// sum of the charges, take returns this refusal.
func (s groupedStore) take(ctx context.Context, c *group.Call[Subject, *Limit], charges []Charge) (taken bool, calls int, err error) {
	defer func() {
		if v := recover(); v != nil { // each request of the group panics in its own goroutine
			taken, calls, err = false, 1, panicOf(v)
		}
	}()
	subject := charges[0].Subject
	taken, calls, err = s.call(ctx, c.At, subject, charges, c.Results)
	if !errors.Is(err, ErrItemThrottled) {
		return taken, calls, err
	}
	again := &throttledCall{now: c.At, charges: charges, results: c.Results, err: err, calls: calls}
	again.repeat = func() (bool, error) {
		taken, calls, err := s.call(ctx, c.At, subject, charges, c.Results)
		again.calls += calls
		return taken, err
	}
	again.refuses = func() bool {
		for i, charge := range charges {
			if c.Results[i].RetryAfter(c.At, charge.Cost) > 0 {
				return true
			}
		}
		return false
	}
	taken, err = s.retryThrottled(ctx, again)
	return taken, again.calls, err
}
