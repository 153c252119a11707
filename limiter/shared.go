package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/algo"
)

// shared is the state that this process keeps for a store that other processes charge too.
type shared struct {
	store    Store
	clock    Clock
	intN     func(n int) int
	denials  *denials     // states that deny without a store call
	trackers *trackers    // leases and counters
	fallback *fallback    // counts of an outage
	groups   groups       // requests that share a store call
	answers  atomic.Int64 // calls with an answer
	failures atomic.Int64 // calls without an answer since the last answer
	failing  atomic.Bool  // the store did not answer the last call
}

// call calls Take of the shared store. It returns the number of calls that it made: 0 after the deadline, or
// while a breaker is open.
func (s *shared) call(ctx context.Context, at algo.Instant, subject Subject, charges []Charge, results []algo.Result) (taken bool,
	calls int, err error) {
	if err := ctx.Err(); err != nil { // earlier calls or waits used up the time
		return false, 0, s.crowdedError(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	answers := s.answers.Load()
	taken, err = s.store.Take(ctx, at, subject, charges, results)
	if errors.Is(err, ErrBreakerOpen) {
		return false, 0, err
	}
	if err == nil && slices.ContainsFunc(results, func(r algo.Result) bool { return r.Machine == nil }) {
		taken, err = false, errBlank
	}
	answered := Answered(err)
	s.failing.Store(!answered)
	switch {
	case answered:
		s.answers.Add(1)
		s.failures.Store(0)
	case TimedOut(err) && s.answers.Load() != answers: // the store has answered other calls, so the subject is busy
		err = asBusy(err)
	default:
		s.failures.Add(1)
	}
	return taken, 1, err
}

// errBlank means that the store returned no state. Such a store breaks its contract, and the missing
// state would cause a panic later.
var errBlank = fmt.Errorf("%w: %w: the store returned no state for a limit", ErrUnavailable, ErrFormat)

// crowdedError returns the failure of a call on a subject that has several requests at a time. A timeout
// then means that the subject is busy. If the store counts as down, the timeout means an outage.
func (s *shared) crowdedError(err error) error {
	if TimedOut(err) && s.failures.Load() < downAfter {
		return asBusy(err)
	}
	return err
}

// downAfter is the number of calls in a row without an answer after which the store counts as down.
const downAfter = 5
