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
	denials  *denials  // states that deny without a store call
	trackers *trackers // leases and counters
	fallback *fallback // counts of an outage
	groups   groups    // requests that share a store call
	health   health
	failing  atomic.Bool // the store did not answer the last call
}

// call calls Take of the shared store. It returns the number of calls that it made: 0 after the deadline, or
// while a breaker is open.
func (s *shared) call(ctx context.Context, at algo.Instant, subject Subject, charges []Charge, results []algo.Result) (taken bool, calls int, err error) {
	if err := ctx.Err(); err != nil { // earlier calls or waits used up the time
		return false, 0, s.crowdedError(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	answers := s.health.answers.Load()
	taken, err = s.store.Take(ctx, at, subject, charges, results)
	if errors.Is(err, ErrBreakerOpen) {
		return false, 0, err
	}
	if err == nil && slices.ContainsFunc(results, func(r algo.Result) bool { return r.Machine == nil }) {
		taken, err = false, errBlank
	}
	s.failing.Store(!Answered(err))
	return taken, 1, s.health.record(answers, err)
}

// errBlank means that the store returned no state. Such a store breaks its contract, and the missing
// state would cause a panic later.
var errBlank = fmt.Errorf("%w: %w: the store returned no state for a limit", ErrUnavailable, ErrFormat)

// crowdedError returns the failure of a call on a subject that has several requests at a time. A timeout
// then means that the subject is busy. If the store counts as down, the timeout means an outage.
func (s *shared) crowdedError(err error) error {
	if TimedOut(err) && s.health.failures.Load() < downAfter {
		return asBusy(err)
	}
	return err
}

// downAfter is the number of calls in a row without an answer after which the store counts as down.
const downAfter = 5

// health records how often a shared store answers this process.
type health struct {
	answers  atomic.Int64 // calls with an answer
	failures atomic.Int64 // calls without an answer since the last answer
}

// record records the error of a call. answers is the number of answers at the start of the call. If the store has
// answered other calls since, a timeout means that the subject is busy.
func (h *health) record(answers int64, err error) error {
	if Answered(err) {
		h.answers.Add(1)
		h.failures.Store(0)
		return err
	}
	if TimedOut(err) && h.answers.Load() != answers {
		return asBusy(err)
	}
	h.failures.Add(1)
	return err
}
