package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// dynamo is the store of one environment over a table. For each charge it makes the attempts of
// limiter/dynamostore, without condition expressions, which would take ten times as long. A test
// compares the calls and answers of both.
type dynamo struct {
	limiter.Store // embedded for the methods that are never called; only Take and Settle are
	link          link
	table         *table
	guess         atomic.Int32 // above 0: assume that an unknown bucket is busy, and that unknown slots exist
	settling      bool         // true while calls settle a request
}

// link connects an environment to the store.
type link interface {
	// trip sends one call. serve runs when the call arrives. trip returns an error if the answer
	// comes after the deadline.
	trip(ctx context.Context, serve func(at algo.Instant)) error
	// measured reports whether the current request counts in the results: it is after the warm-up.
	measured() bool
}

// The maximum attempts of a decision, the bounds of guess, and the size from which a log is
// trimmed, as in dynamostore.
const (
	attempts = 1 + 2 + 8
	sure     = 4

	trimLeast = 32
	trimEvery = 16
	trimMost  = 100
)

// Take implements limiter.Store.
func (d *dynamo) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	if len(charges) > 1 {
		return d.report(ctx, now, charges, results)
	}
	a := &attempt{Charge: charges[0], machine: charges[0].Limit.Machine(), now: now, seen: results[0].State}
	most, passes := a.machine.Capacity(), false
	if a.Cost == 0 || a.Cost > most && (!a.Force || a.Cost > 2*most) {
		found, err := d.read(ctx, subject)
		if err != nil {
			return false, err
		}
		passes = a.learn(found)
	}
	guessed := d.predict(a)
	for i := range attempts {
		if a.exact && (!passes || a.same) {
			results[0] = algo.Result{Machine: a.machine, State: a.seen}
			return passes, nil
		}
		found, err := d.write(ctx, subject, a)
		if i > 0 && errors.Is(err, context.DeadlineExceeded) {
			return false, fmt.Errorf("%w: %w", limiter.ErrContended, err)
		}
		if err != nil {
			return false, err
		}
		if i == 0 && guessed && !d.settling {
			d.teach(a, found)
		}
		if found.applied {
			results[0] = algo.Result{Machine: a.machine, State: found.state}
			d.trim(ctx, subject, a, found.state)
			return true, nil
		}
		passes = a.learn(found)
	}
	return false, limiter.ErrContended
}

// predict sets a.busy: whether the write expects a busy bucket or existing slots. It is true if the state in
// seen is. Otherwise predict guesses from the results of earlier writes, and returns true.
func (d *dynamo) predict(a *attempt) (guessed bool) {
	if a.exact {
		return false
	}
	switch a.machine.(type) {
	case *algo.Bucket:
		a.busy = a.seen.TAT > a.now
	case *algo.Slots:
		a.busy = a.seen.Entries != ""
	default:
		return false
	}
	if guessed = !a.busy; guessed {
		a.busy = d.guess.Load() > 0
	}
	return guessed
}

func (d *dynamo) teach(a *attempt, found reply) {
	_, slots := a.machine.(*algo.Slots)
	busy := a.busy
	if slots {
		busy = busy && found.applied || !found.applied && found.exists
	} else if !found.applied {
		if !found.exists {
			return
		}
		busy = found.state.TAT > a.now
	}
	if busy {
		d.guess.Store(min(d.guess.Load()+1, sure))
	} else {
		d.guess.Store(max(d.guess.Load()-1, -sure))
	}
}

// trim removes a log's expired entries when there are many.
func (d *dynamo) trim(ctx context.Context, subject limiter.Subject, a *attempt, s algo.State) {
	l, ok := a.machine.(*algo.Log)
	if !ok {
		return
	}
	_, expired := l.Live(s, s.Newest)
	length := int64(s.Entries.Len())
	due := expired >= trimLeast && length/trimEvery != (length-a.Cost)/trimEvery || length >= l.MaxDebt()
	if n := min(expired, int(length)-1, trimMost); due && n > 0 {
		_, _ = d.write(ctx, subject, &attempt{seen: s, trim: n}) // ignore an error: a later charge trims the log
	}
}

// report sends a report of adaptive shares. No other call has several charges. The charges of a report are
// never refused, so one attempt is enough.
func (d *dynamo) report(ctx context.Context, now algo.Instant, charges []limiter.Charge, results []algo.Result) (bool, error) {
	// The call needs its own copy, because it can arrive after the timeout, when the caller has
	// changed charges.
	sent, found, billed := slices.Clone(charges), make([]algo.Result, len(charges)), d.link.measured()
	answer, err := d.call(ctx, func(at algo.Instant) reply { return d.table.report(ctx, at, now, sent, found, billed) })
	if err != nil {
		return false, err
	}
	copy(results, found)
	return answer.applied, nil
}

func (d *dynamo) write(ctx context.Context, subject limiter.Subject, a *attempt) (reply, error) {
	billed, settling := d.link.measured(), d.settling
	sent := *a // a copy, because the call can arrive after the timeout, when a has changed
	return d.call(ctx, func(at algo.Instant) reply {
		before := d.table.writes
		found := d.table.write(subject, at, &sent, billed)
		if settling {
			d.table.settled += d.table.writes - before
		}
		return found
	})
}

func (d *dynamo) read(ctx context.Context, subject limiter.Subject) (reply, error) {
	billed := d.link.measured()
	stale := limiter.MayBeStale(ctx)
	return d.call(ctx, func(at algo.Instant) reply { return d.table.read(subject, at, stale, billed) })
}

func (d *dynamo) call(ctx context.Context, serve func(at algo.Instant) reply) (reply, error) {
	found := new(reply)
	err := d.link.trip(ctx, func(at algo.Instant) { *found = serve(at) })
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	case found.throttled != nil:
		return reply{}, fmt.Errorf("%w: %w", limiter.ErrUnavailable, found.throttled)
	}
	return *found, nil
}

// Settle implements limiter.Store. It makes one call for each charge; dynamostore makes one for all
// charges.
func (d *dynamo) Settle(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, _ limiter.Once) (settled limiter.Settled, err error) {
	for i, c := range charges {
		if c.Force {
			err = d.force(ctx, now, subject, c)
		} else {
			var given bool
			if given, err = d.refund(ctx, subject, c.Cost, results[i], elapsed+dynamostore.DefaultMargin); given {
				settled.Given++
			}
		}
		if err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// force charges the cost of a settlement past the limit. It does not compute the excess, because no
// result needs it.
func (d *dynamo) force(ctx context.Context, now algo.Instant, subject limiter.Subject, c limiter.Charge) error {
	d.settling = true
	defer func() { d.settling = false }()
	_, err := d.Take(ctx, now, subject, []limiter.Charge{c}, make([]algo.Result, 1))
	return err
}

// refund makes a refund. Its first write assumes that the bucket has not changed since the charge.
func (d *dynamo) refund(ctx context.Context, subject limiter.Subject, cost int64, taken algo.Result, late time.Duration) (given bool, err error) {
	bucket, _ := taken.Machine.(*algo.Bucket)
	billed := d.link.measured()
	for unchanged := bucket != nil; ; unchanged = false {
		found, err := d.call(ctx, func(at algo.Instant) reply {
			return d.table.correct(subject, at, taken.Machine, billed, func(s algo.State) algo.State {
				if unchanged && !bucket.Untouched(s, taken.State) {
					return s
				}
				return taken.Machine.Refund(s, taken.State, cost, late)
			})
		})
		if err != nil || found.applied || !unchanged || bucket.Refundable(cost, late) <= 0 {
			return found.applied, err
		}
	}
}
