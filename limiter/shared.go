package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/group"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// shared is the state that this process keeps for a store that other processes charge too.
type shared struct {
	store    Store
	clock    Clock
	intN     func(n int) int
	denials  denials                        // states that deny without a store call
	trackers *trackers                      // leases and counters
	fallback fallback                       // counts of an outage
	groups   *group.Groups[Subject, *Limit] // requests that share a store call
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

// denials is the denial cache for charges of this package.
type denials struct{ *local.Denials }

// key returns the identity of l in package local.
func (l *Limit) key() local.Limit {
	return local.Limit{ID: uint64(l.ID), Machine: l.machine, Share: l.isLocalShare}
}

// keys converts charges to the type of package local and appends them to the slice to.
func keys(to []local.Charge, charges []Charge) []local.Charge {
	for _, c := range charges {
		to = append(to, local.Charge{Limit: c.Limit.key(), Cost: c.Cost, Force: c.Force})
	}
	return to
}

// record caches the states that the store returned for the charges on a subject.
func (d denials) record(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, taken bool) {
	var room [MaxCharges]local.Charge
	d.Record(now, subject.String(), keys(room[:0], charges), results, taken)
}

// lookup fills results and backOffs from the cache, and reports whether the cache denies.
func (d denials) lookup(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, backOffs []time.Duration) (denies bool) {
	var room [MaxCharges]local.Charge
	return d.Lookup(now, subject.String(), keys(room[:0], charges), results, backOffs)
}

// last returns the cached state of a limit, of any age and under any version of its rules. The result has no Machine if
// there is no such state. For a limit with shards, the result is the sum of all shards at the instant now.
func (d denials) last(now algo.Instant, subject Subject, limit *Limit) (sum algo.Result) {
	if limit.Spread.Shards == 0 {
		return d.Last(subject.String(), uint64(limit.ID))
	}
	for i := range limit.parts {
		if r := d.Last(subject.shard(i).String(), uint64(limit.ID)); r.Machine != nil {
			sum = algo.Result{Machine: limit.machine, State: algo.Sum(limit.machine, r.Machine, sum.State, r.State, now)}
		}
	}
	return sum
}

// fallback is the Store in which this process counts during an outage.
type fallback struct {
	*local.Fallback
	denials denials
}

// holds reports whether f holds a state of the subject. It allocates nothing.
func (f fallback) holds(s Subject) bool {
	var key [2 * MaxSubject]byte
	return f.HoldsSubject(append(append(key[:0], prefixes[s.kind]...), s.name...))
}

// Take implements Store.
func (f fallback) Take(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error) {
	clear(results)
	return f.take(now, subject, charges, results, func() {})
}

// take is like Take. It first calls the function seen, which writes states to results. take counts at least as
// much as these states.
func (f fallback) take(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, seen func()) (bool, error) {
	taken, ok := f.Fallback.Take(now, subject.String(), keys(nil, charges), results, seen)
	if !ok {
		return false, ErrFull
	}
	return taken, nil
}

// Settle implements Store. No voucher has charges on a fallback, so there is no ID to check.
func (f fallback) Settle(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration, _ Once) (s Settled, err error) {
	seen := func(i int) algo.Result { return f.denials.last(now, subject, charges[i].Limit) }
	s.Given = f.Fallback.Settle(now, subject.String(), keys(nil, charges), results, elapsed, s.Excess[:], seen)
	return s, nil
}

// Inspect implements Store. Operators inspect the shared store only.
func (f fallback) Inspect(context.Context, Subject) ([]Entry, error) { return nil, nil }

// Reset implements Store.
func (f fallback) Reset(_ context.Context, subject Subject) error {
	f.Fallback.Reset(subject.String())
	return nil
}
