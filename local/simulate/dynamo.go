package simulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// dynamo is the store of one environment over a table. It makes the attempts that
// limiter/dynamostore makes for one charge, without spelling them as expressions, which
// would take ten times as long; a test holds both to the same calls and answers.
type dynamo struct {
	limiter.Store // of which only Take is called
	env           *environment
	table         *table
	guess         int // above 0: a bucket of which nothing is known is busy
}

// The bounds of a decision's attempts, and of guess, as dynamostore has them.
const (
	attempts = 1 + 2 + 8
	appended = 64
	sure     = 4
)

// Take implements limiter.Store.
func (d *dynamo) Take(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result) (bool, error) {
	a := &attempt{Charge: charges[0], machine: charges[0].Limit.Machine(), now: now, seen: results[0].State}
	most, passes := a.machine.Capacity(), false
	if a.Cost == 0 || a.Cost > most && (!a.Spend || a.Cost > 2*most) {
		found, err := d.read(subject)
		if err != nil {
			return false, err
		}
		passes = a.learn(found.state)
	}
	guessed := d.predict(a)
	for i := range d.most(a) {
		if a.exact && (!passes || a.Cost == 0) {
			results[0] = limiter.Result{Machine: a.machine, State: a.seen}
			return passes, nil
		}
		found, err := d.write(subject, a)
		if i > 0 && errors.Is(err, context.DeadlineExceeded) {
			return false, fmt.Errorf("%w: %w", limiter.ErrContended, err)
		}
		if err != nil {
			return false, err
		}
		if i == 0 && guessed {
			d.teach(a, found)
		}
		if found.applied {
			results[0] = limiter.Result{Machine: a.machine, State: found.state}
			d.cut(subject, a, found.state)
			return true, nil
		}
		passes = a.learn(found.state)
	}
	return false, limiter.ErrContended
}

func (d *dynamo) most(a *attempt) int {
	if _, ok := a.machine.(*algo.Log); ok {
		return attempts + appended
	}
	return attempts
}

// predict decides whether a bucket is taken to be busy, and reports whether that is a
// guess.
func (d *dynamo) predict(a *attempt) (guessed bool) {
	if _, ok := a.machine.(*algo.Bucket); !ok || a.exact {
		return false
	}
	a.busy = a.seen.TAT > a.now
	if guessed = !a.busy; guessed {
		a.busy = d.guess > 0
	}
	return guessed
}

func (d *dynamo) teach(a *attempt, found reply) {
	busy := a.busy
	if !found.applied {
		if !found.exists {
			return
		}
		busy = found.state.TAT > a.now
	}
	if busy {
		d.guess = min(d.guess+1, sure)
	} else {
		d.guess = max(d.guess-1, -sure)
	}
}

// cut removes the expired entries of a log once its list is twice as long as it need be.
func (d *dynamo) cut(subject limiter.Subject, a *attempt, s algo.State) {
	l, ok := a.machine.(*algo.Log)
	if !ok || int64(s.Entries.Len()) < l.Deepest() {
		return
	}
	if trimmed := l.Trim(s); trimmed != s {
		_, _ = d.write(subject, &attempt{seen: s, next: trimmed, replace: true}) // if it fails, a later charge does it
	}
}

func (d *dynamo) write(subject limiter.Subject, a *attempt) (reply, error) {
	billed := d.env.sim.measured(d.env)
	sent := *a // which may arrive when nobody waits any more
	return d.call(func(at algo.Instant) reply { return d.table.write(subject, at, &sent, billed) })
}

func (d *dynamo) read(subject limiter.Subject) (reply, error) {
	billed := d.env.sim.measured(d.env)
	return d.call(func(at algo.Instant) reply { return d.table.read(subject, at, billed) })
}

func (d *dynamo) call(serve func(at algo.Instant) reply) (reply, error) {
	found := new(reply)
	err := d.env.trip(func(at algo.Instant) { *found = serve(at) })
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	case found.throttled:
		return reply{}, errThrottled
	}
	return *found, nil
}

var errThrottled = fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)
