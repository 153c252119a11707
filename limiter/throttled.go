package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// DynamoDB throttles partitions. A throttled item can be the hot item of its partition, or a quiet neighbour of a hot
// item.
//
//   - A hot subject is busy: its requests are denied. Otherwise a caller could pass its limit by overloading
//     its own item.
//   - For a quiet subject, OnError decides.
//
// Reads show which case it is, because they have a separate capacity. An item that changes between two reads is hot.
// An item that stays the same is quiet. An item that cannot be read twice counts as hot. If it counted as quiet,
// every environment could admit one request, and all of them together several times a small limit.
//
// Three measures make failed reads rare: a read costs half a unit (MayBeStale), there are few reads, and every call
// follows a random pause.

// plan is the list of calls that follow a throttled one, until a call is not throttled.
type plan []step

type step int

const (
	read step = iota
	write
	reread // read again if the last read failed, otherwise write
)

var (
	// unknownPlan is for a subject that can be hot or quiet. Its two reads are far apart.
	unknownPlan = plan{read, write, reread, write, write, write, write, read, reread}
	// hotPlan is for a hot subject whose limits can be leased. One write serves many requests.
	hotPlan = plan{write, write, write, write, read, write, write}
	// hotUnleasedPlan is for any other hot subject. More writes would take capacity from other
	// environments.
	hotUnleasedPlan = plan{read, write}
)

// The pauses of a plan begin within planTime, and at least planReserve before the deadline. The call after the last
// pause may get no answer in time.
const (
	planTime    = 100 * time.Millisecond
	planReserve = 8 * time.Millisecond
	callTime    = 4 * time.Millisecond // expected duration of one call
)

type throttledCall struct {
	now     algo.Instant
	charges []Charge
	results []algo.Result
	err     error
	calls   int // number of calls so far; the caller may count the first one elsewhere
	// repeat makes the call again.
	repeat func() (taken bool, err error)
	// refuses reports whether results refuse the call.
	refuses func() bool

	plan       plan
	hot        bool
	lastRead   []algo.Result // the states of the last read
	reads      int           // number of reads that succeeded
	readFailed bool          // the last read failed
	changed    bool          // two reads returned different states
	refused    bool          // the state that was read refuses the call
}

// retryThrottled follows the plan of a throttled call. If a call of the plan is not throttled, the
// result is the outcome of that call. If a read finds a state that refuses, the result is the refusal.
// If the plan or the time ends first, the error says whether the subject is hot (see busy) or quiet
// (ErrThrottled).
func (s *shared) retryThrottled(ctx context.Context, c *throttledCall) (taken bool, err error) {
	first := c.charges[0]
	if !slices.ContainsFunc(c.charges, func(c Charge) bool { return c.Cost > 0 }) {
		return false, neighbourError(c.err) // no call of the plan charged the request
	}
	if first.Limit.Shadow {
		s.trackers.raisePressure(c.now, c.charges, true)
		return false, c.err
	}
	c.hot = s.trackers.hot(c.now, first.Subject, first.Limit)
	if taken, ended, err := s.followPlan(ctx, c); ended {
		if err == nil && (c.hot || c.changed) && taken {
			s.trackers.raisePressure(c.now, c.charges, false)
		}
		return taken, err
	}
	if !c.hot && !c.changed && c.reads >= 2 {
		return false, neighbourError(c.err)
	}
	s.trackers.raisePressure(c.now, c.charges, true)
	return false, c.err
}

// followPlan makes the calls of the plan. ended reports whether a call was not throttled, or a read
// refused.
func (s *shared) followPlan(ctx context.Context, c *throttledCall) (taken, ended bool, err error) {
	c.choosePlan()
	budget := planTime
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)-planReserve)
	}
	end := s.clock.Now().Add(budget)
	for i, step := range c.plan {
		left := end.Sub(s.clock.Now())
		if left <= 0 || !s.pause(ctx, left, len(c.plan)-i, c.counts()) {
			return false, false, nil
		}
		// Near the end, a read is worth more than another write: two reads decide whether the subject is
		// hot.
		last := !c.hot && c.reads < 2 && left < 3*callTime
		if step == read || step == reread && c.readFailed || last {
			s.read(ctx, c)
			if c.refused {
				return false, true, nil
			}
			continue
		}
		switch taken, err = c.repeat(); {
		case TimedOut(err): // The store answered the other calls, so this is no outage. The call may have charged.
			return false, false, nil
		case !errors.Is(err, ErrItemThrottled):
			return taken, true, err
		}
	}
	return false, false, nil
}

func (c *throttledCall) choosePlan() {
	switch {
	case !c.hot:
		c.plan = unknownPlan
	case slices.ContainsFunc(c.charges, func(c Charge) bool { return !c.Limit.leasesHelp() }):
		c.plan = hotUnleasedPlan
	default:
		c.plan = hotPlan
	}
}

// counts reports whether a limit of the call has a Count. No lease admits its honest callers, so the last write of the
// plan matters more than the capacity that it takes from other environments.
func (c *throttledCall) counts() bool {
	return slices.ContainsFunc(c.charges, func(c Charge) bool { return c.Limit.Count.Settles() })
}

// pause waits for a random time. The remaining calls of the plan spread over the duration left. If all of them have to
// be made, the pause is at most that duration.
func (s *shared) pause(ctx context.Context, left time.Duration, calls int, all bool) bool {
	mean := max(left/time.Duration(calls)-callTime, time.Millisecond)
	random := mean/2 + time.Duration(s.intN(int(mean)))
	if all {
		random = min(random, left)
	}
	return s.clock.Sleep(ctx, random) == nil
}

func (s *shared) read(ctx context.Context, c *throttledCall) {
	looks, results := slices.Clone(c.charges), slices.Clone(c.results)
	for i := range looks {
		looks[i].Cost = 0
	}
	_, calls, err := s.call(mayBeStale(ctx), c.now, looks[0].Subject, looks, results)
	c.readFailed = err != nil
	c.calls += calls
	if c.readFailed {
		return
	}
	copy(c.results, results)
	c.changed = c.changed || c.lastRead != nil && !slices.EqualFunc(c.lastRead, results, sameState)
	c.lastRead = results
	c.reads++
	c.refused = c.refuses()
}

// sameState reports whether two reads returned the same state. A store can return a new Machine at each
// read.
func sameState(a, b algo.Result) bool {
	return a.State == b.State && a.Machine.Fingerprint() == b.Machine.Fingerprint()
}
