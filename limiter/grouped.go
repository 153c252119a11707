package limiter

import (
	"context"
	"errors"

	"github.com/weir-limits/weir/limiter/algo"
)

// serve makes calls for q until no request waits.
func (s *shared) serve(q *group) {
	for waits := len(q.queue) > 0; waits; waits = s.groups.more(q) {
		q.compose()
		if len(q.members) > 0 {
			q.release()
			s.chargeGroup(q)
		}
	}
}

// chargeGroup makes the call of the members of q.
func (s *shared) chargeGroup(q *group) {
	charges, results := make([]Charge, len(q.totals)), make([]algo.Result, len(q.totals))
	for i, t := range q.totals {
		limit := t.charged()
		charges[i], results[i] = Charge{Subject: q.subject, Limit: limit, Cost: t.cost}, limit.view(t.known)
	}
	ctx, cancel := q.context()
	defer cancel()
	taken, calls, err := s.takeGroup(ctx, q.at, charges, results)
	if err != nil && s.groups.crowded(q) {
		err = s.crowdedError(err)
	}
	for i, t := range q.totals {
		charges[i].Limit = t.limit
	}
	if busy(err) && !errors.Is(err, ErrItemThrottled) { // for a throttled item, retryThrottled has raised the pressure already
		s.trackers.raisePressure(q.at, charges, false)
	}
	// If the store refused the sum of several requests, the cache records a refusal of the smallest cost.
	if err == nil {
		for i, t := range q.totals {
			if t.cost > 0 {
				charges[i].Limit, charges[i].Cost = t.least.Limit, t.least.Cost
			}
		}
		s.denials.record(q.at, q.subject, charges, results, taken)
	}
	q.finish(taken, results, calls, err)
}

// takeGroup makes the call of a group, and repeats it if it is throttled. If a read shows that the state refuses the
// sum of the charges, takeGroup returns this refusal.
func (s *shared) takeGroup(ctx context.Context, at algo.Instant, charges []Charge, results []algo.Result) (taken bool, calls int,
	err error) {
	defer func() {
		if v := recover(); v != nil { // each request of the group panics in its own goroutine
			taken, calls, err = false, 1, panicOf(v)
		}
	}()
	subject := charges[0].Subject
	taken, calls, err = s.call(ctx, at, subject, charges, results)
	if !errors.Is(err, ErrItemThrottled) {
		return taken, calls, err
	}
	again := &throttledCall{now: at, charges: charges, results: results, err: err, calls: calls}
	again.repeat = func() (bool, error) {
		taken, calls, err := s.call(ctx, at, subject, charges, results)
		again.calls += calls
		return taken, err
	}
	again.refuses = func() bool {
		for i, charge := range charges {
			if results[i].RetryAfter(at, charge.Cost) > 0 {
				return true
			}
		}
		return false
	}
	taken, err = s.retryThrottled(ctx, again)
	return taken, again.calls, err
}
