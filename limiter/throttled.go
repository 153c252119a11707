package limiter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// DynamoDB throttles partitions. A throttled item may be the hot one, or a quiet neighbour in the
// same partition. A hot subject is busy, because its own pressure must not take it past its limit.
// For a quiet subject on_error decides.
//
// Reads have a separate capacity and show which case it is. An item that others charge between two
// reads is hot. An item that stays the same is quiet. An item that cannot be read twice counts as
// hot: on a small limit, one admission by every environment would be several times the limit. Three
// measures keep quiet subjects from that result. Reads cost half a unit (MayBeStale), they are few,
// and every call follows a random pause.

// plan is the calls that follow a throttled one, until one is not throttled.
type plan []step

type step int

const (
	read step = iota
	write
	reread // read if the last read failed, else write
)

var (
	// unknownPlan is for a subject without a known state. It has two reads that are far apart.
	unknownPlan = plan{read, write, reread, write, write, write, write, read, reread}
	// hotPlan is for a hot subject whose limits can be leased. One write serves many requests.
	hotPlan = plan{write, write, write, write, read, write, write}
	// hotRestPlan is for any other hot subject. Its writes would only take capacity from the others.
	hotRestPlan = plan{read, write}
)

// No pause of a plan begins later than planTime after the first one, or planReserve before the
// deadline. The last pause can end later: a call that it leads to may then have no answer in time.
const (
	planTime    = 100 * time.Millisecond
	planReserve = 8 * time.Millisecond
	callTime    = 4 * time.Millisecond // that one takes
)

// attempt is a throttled call, and how it is repeated.
type attempt struct {
	now     algo.Instant
	charges []Charge
	results []algo.Result
	err     error
	calls   int // more than the first
	// take makes the call again.
	take func() (taken bool, err error)
	// refuses reports whether results refuse the call.
	refuses func() bool

	plan    plan
	hot     bool
	first   []algo.Result // the result of the first read
	read    int           // how often
	unread  bool          // the last read failed
	changed bool          // between two reads
	refused bool          // the state that was read refuses
}

// outlast repeats a throttled call by its plan. It returns the outcome of the call that was not
// throttled, the refusal that a read found, or the error of a hot or of a quiet subject.
func (s *shared) outlast(ctx context.Context, a *attempt) (taken bool, err error) {
	first := a.charges[0]
	if !slices.ContainsFunc(a.charges, func(c Charge) bool { return c.Cost > 0 }) {
		return false, quiet(a.err) // a look
	}
	if first.Limit.Shadow {
		s.accounts.signal(a.now, a.charges, true)
		return false, a.err
	}
	a.hot = s.accounts.hot(a.now, first.Subject, first.Limit)
	if taken, ended, err := s.follow(ctx, a); ended {
		if err == nil && (a.hot || a.changed) && taken {
			s.accounts.signal(a.now, a.charges, false)
		}
		return taken, err
	}
	if !a.hot && !a.changed && a.read >= 2 {
		return false, quiet(a.err)
	}
	s.accounts.signal(a.now, a.charges, true)
	return false, a.err
}

// follow makes the calls of the plan, and reports whether one ended the attempt.
func (s *shared) follow(ctx context.Context, a *attempt) (taken, ended bool, err error) {
	a.choosePlan()
	budget := planTime
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)-planReserve)
	}
	end := s.clock.Now().Add(budget)
	for i, step := range a.plan {
		left := end.Sub(s.clock.Now())
		if left <= 0 || !s.pause(ctx, left, len(a.plan)-i) {
			return false, false, nil
		}
		last := !a.hot && a.read < 2 && left < 3*callTime // a read is worth more than another write
		if step == read || step == reread && a.unread || last {
			if s.look(ctx, a); a.refused {
				return false, true, nil
			}
			continue
		}
		switch taken, err = a.take(); {
		case TimedOut(err): // no outage, for the store has answered the others; the charge may have been made
			return false, false, nil
		case !errors.Is(err, ErrItemThrottled):
			return taken, true, err
		}
	}
	return false, false, nil
}

func (a *attempt) choosePlan() {
	switch {
	case !a.hot:
		a.plan = unknownPlan
	case slices.ContainsFunc(a.charges, func(c Charge) bool { return !c.Limit.leasesHelp() }):
		a.plan = hotRestPlan
	default:
		a.plan = hotPlan
	}
}

// pause waits for a random time, so that the remaining calls of the plan spread over the time left.
func (s *shared) pause(ctx context.Context, left time.Duration, calls int) bool {
	mean := max(left/time.Duration(calls)-callTime, time.Millisecond)
	return s.clock.Sleep(ctx, mean/2+time.Duration(s.intN(int(mean)))) == nil
}

// look reads the item.
func (s *shared) look(ctx context.Context, a *attempt) {
	looks, results := slices.Clone(a.charges), slices.Clone(a.results)
	for i := range looks {
		looks[i].Cost = 0
	}
	_, calls, err := s.ask(mayBeStale(ctx), a.now, looks[0].Subject, looks, results)
	a.unread = err != nil
	if a.calls += calls; a.unread {
		return
	}
	copy(a.results, results)
	a.changed = a.changed || a.first != nil && !slices.EqualFunc(a.first, results, sameState)
	a.first = results
	a.read++
	a.refused = a.refuses()
}

// sameState compares two reads. A store may make a new Machine at each read.
func sameState(a, b algo.Result) bool {
	return a.State == b.State && a.Machine.Fingerprint() == b.Machine.Fingerprint()
}
