package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/group"
)

// shared is what this process keeps of a store that other processes charge too.
type shared struct {
	store    Store
	clock    Clock
	intN     func(n int) int
	denials  denials               // states that deny without a store call
	accounts *accounts             // leases and counters
	fallback fallback              // what was admitted in an outage
	groups   *group.Groups[*Limit] // requests that share a store call
	pulse    pulse
	failing  atomic.Bool // the store did not answer the last call
}

// ask calls Take of the shared store. It returns the number of calls that were made: none after
// the deadline, or while a breaker is open.
func (s *shared) ask(ctx context.Context, at algo.Instant, subject Subject, charges []Charge, results []algo.Result) (taken bool, calls int, err error) {
	if err := ctx.Err(); err != nil { // other requests or calls took all the time
		return false, 0, s.crowded(fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	begun := s.pulse.answers.Load()
	taken, err = s.store.Take(ctx, at, subject, charges, results)
	if errors.Is(err, ErrBreakerOpen) {
		return false, 0, err
	}
	if err == nil && slices.ContainsFunc(results, func(r algo.Result) bool { return r.Machine == nil }) {
		taken, err = false, errBlank
	}
	s.failing.Store(!Answered(err))
	return taken, 1, s.pulse.judge(begun, err)
}

// errBlank is the failure of a store that breaks its contract: reading a missing state would panic.
var errBlank = fmt.Errorf("%w: %w: the store returned no state for a limit", ErrUnavailable, ErrFormat)

// crowded returns the failure of a call on a subject with more than one request at a time. A
// timeout is pressure until silence calls in a row had no answer.
func (s *shared) crowded(err error) error {
	if TimedOut(err) && s.pulse.failures.Load() < silence {
		return pressure(err)
	}
	return err
}
