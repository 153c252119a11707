// Package throttle is the layer that repeats throttled calls.
//
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
package throttle

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/table"
)

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

// Throttle repeats a throttled call, so that a busy item is no outage.
type Throttle struct {
	chain.Below
	*chain.Process
}

// Take implements chain.Layer. If the requests of the subject make its item busy, it raises the pressure on the limits.
func (t *Throttle) Take(a *chain.Ask) {
	t.Below.Take(a)
	switch {
	case errors.Is(a.Err, domain.ErrItemThrottled):
		t.repeat(a)
	case a.Verdict == chain.Busy && !a.Look:
		t.Trackers.RaisePressure(a.Now, a.Charges, false)
	}
}

// call is a throttled call that is repeated.
type call struct {
	*chain.Ask
	hot        bool
	lastRead   []algo.Result // the states of the last read
	reads      int           // number of reads that succeeded
	readFailed bool          // the last read failed
	changed    bool          // two reads returned different states
}

// repeat follows the plan of a throttled call. If a call of the plan is not throttled, its outcome is the answer. If a read
// finds a state that refuses, that is the answer. If the plan or the time ends first, the error says whether the subject is
// hot (domain.Busy) or quiet (domain.ErrThrottled).
func (t *Throttle) repeat(a *chain.Ask) {
	throttled, first := a.Err, a.Charges[0]
	if !slices.ContainsFunc(a.Charges, func(c domain.Charge) bool { return c.Cost > 0 }) {
		a.Fail(domain.NeighbourError(throttled)) // no call of the plan charged the request
		return
	}
	if first.Limit.Shadow {
		t.Trackers.RaisePressure(a.Now, a.Charges, true)
		return
	}
	c := &call{Ask: a, hot: t.Trackers.Hot(a.Now, first.Subject, first.Limit)}
	t.spare(a)
	if t.followPlan(c) {
		if a.Verdict == chain.Admitted && (c.hot || c.changed) {
			t.Trackers.RaisePressure(a.Now, a.Charges, false)
		}
		return
	}
	if !c.hot && !c.changed && c.reads >= 2 {
		a.Fail(domain.NeighbourError(throttled))
		return
	}
	t.Trackers.RaisePressure(a.Now, a.Charges, true)
	a.Fail(throttled)
}

// spare makes charges of a take a spare, for limits that have much room: the write that succeeds then also serves the next
// requests.
func (t *Throttle) spare(a *chain.Ask) {
	if a.Group {
		return
	}
	for i := range a.Lines {
		line, c := &a.Lines[i], &a.Charges[i]
		if c.Cost > line.Want || c.Force || line.Want == 0 || !table.Leasable(line.Limit) {
			continue
		}
		room := line.Limit.Machine().Capacity()
		if seen := a.Results[i]; seen.Machine != nil {
			room = seen.Remaining(a.Now)
		}
		size := min(table.FirstLease*line.Want, room/table.FirstLeasePart)
		if size > line.Want && t.press(a, line.Limit, size/line.Want) {
			c.Cost = size
		}
	}
}

// press raises the pressure on a limit to the level, so that its next requests use the spare. It returns false if the
// process has no room for the spare, or takes another one.
func (t *Throttle) press(a *chain.Ask, limit *domain.Limit, level int64) bool {
	t.Trackers.Lock()
	defer t.Trackers.Unlock()
	tracker := t.Trackers.Get(a.Now, a.Subject, limit)
	if tracker == nil || tracker.Renewing != nil {
		return false
	}
	tracker.Pressure.Set(a.Now, max(tracker.Pressure.Current(a.Now), level))
	t.Trackers.ExtendPressure(tracker)
	return true
}

// followPlan makes the calls of the plan. ended reports whether a call was not throttled, or a read refused.
func (t *Throttle) followPlan(c *call) (ended bool) {
	plan := c.plan()
	ctx, budget := c.Deadline(), planTime
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)-planReserve)
	}
	end := t.Clock.Now().Add(budget)
	for i, step := range plan {
		left := end.Sub(t.Clock.Now())
		if left <= 0 || !t.pause(ctx, left, len(plan)-i, c.settles()) {
			return false
		}
		// Near the end, a read is worth more than another write: two reads decide whether the subject is
		// hot.
		last := !c.hot && c.reads < 2 && left < 3*callTime
		if step == read || step == reread && c.readFailed || last {
			if t.read(c) {
				return true
			}
			continue
		}
		t.Below.Take(c.Ask)
		switch {
		case domain.TimedOut(c.Err): // The store answered the other calls, so this is no outage. The call may have charged.
			return false
		case !errors.Is(c.Err, domain.ErrItemThrottled):
			return true
		}
	}
	return false
}

func (c *call) plan() plan {
	switch {
	case !c.hot:
		return unknownPlan
	case slices.ContainsFunc(c.Lines, func(l chain.Line) bool { return !table.LeasesHelp(l.Limit) }): // no lease is on a shard
		return hotUnleasedPlan
	}
	return hotPlan
}

// settles reports whether a limit of the call has a Count. No lease admits its honest callers, so the last write of the
// plan matters more than the capacity that it takes from other environments.
func (c *call) settles() bool {
	return slices.ContainsFunc(c.Charges, func(c domain.Charge) bool { return c.Limit.Count.Settles() })
}

// pause waits for a random time. The remaining calls of the plan spread over the duration left. If all of them have to
// be made, the pause is at most that duration.
func (t *Throttle) pause(ctx context.Context, left time.Duration, calls int, all bool) bool {
	mean := max(left/time.Duration(calls)-callTime, time.Millisecond)
	random := mean/2 + time.Duration(t.IntN(int(mean)))
	if all {
		random = min(random, left)
	}
	return t.Clock.Sleep(ctx, random) == nil
}

// read reads the states of c. It reports whether they refuse, which is then the answer.
func (t *Throttle) read(c *call) (refuses bool) {
	r := *c.Request
	r.Look = true
	look := chain.Ask{Request: &r, Subject: c.Subject, Lines: c.Lines, Charges: slices.Clone(c.Charges), Results: slices.Clone(c.Results),
		Stale: true}
	for i := range look.Charges {
		look.Charges[i].Cost = 0
	}
	t.Below.Take(&look)
	c.Calls += look.Calls
	c.readFailed = look.Err != nil
	if c.readFailed {
		return false
	}
	copy(c.Results, look.Results)
	c.changed = c.changed || c.lastRead != nil && !slices.EqualFunc(c.lastRead, look.Results, sameState)
	c.lastRead = look.Results
	c.reads++
	if look.Verdict != chain.Refused {
		c.BoundSpares()
		return false
	}
	c.DropSpares()
	c.Answer(false, nil)
	return true
}

// sameState reports whether two reads returned the same state. A store can return a new Machine at each
// read.
func sameState(a, b algo.Result) bool {
	return a.State == b.State && a.Machine.Fingerprint() == b.Machine.Fingerprint()
}
