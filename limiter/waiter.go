package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/algo"
)

// errNoAnswer means that the deadline of a request that waited has passed, or is too close for another call. No store
// call returns it.
var errNoAnswer = errors.New("no answer in time")

func noAnswer(cause error) error { return fmt.Errorf("%w: %w: %w", ErrUnavailable, errNoAnswer, cause) }

// waiterCharge is a charge of a waiter. It is a copy, because a request that no longer waits uses its charges again.
type waiterCharge struct {
	limit *Limit
	want  int64 // cost of the request; 0 if it only looks
	cost  int64 // want, or more if the charge also takes a lease
}

// outcome is the outcome of a request that waited. If the group gave up its leases, the charges of the waiter have less
// cost than before.
type outcome struct {
	taken   bool
	results []algo.Result // the states after the charges, or the states that refused them
	calls   int           // number of store calls; only one of the requests that share a call reports it
	err     error
}

// The states of a waiter.
const (
	waiting  = iota
	sent     // its charges are part of the call in flight
	answered // the outcome is in answer
	left     // the request no longer waits for the outcome
)

// waiter is a request that waits for its turn.
type waiter struct {
	ctx     context.Context //nolint:containedctx // it is the deadline of one request among several
	now     algo.Instant
	look    bool
	charges []waiterCharge

	state  atomic.Int32
	calls  int   // calls that have returned since the request arrived
	totals []int // for each charge, the index of its total in the group
	sees   bool  // the call does not charge the request; the request only waits for the returned state

	done   chan struct{} // closed when answer is set
	answer outcome
}

// wait returns the outcome of the request. If the deadline of the request passes before its call is
// sent, the request is not charged. If the deadline passes later, the call can charge the request
// although wait returns errNoAnswer.
func (w *waiter) wait() outcome {
	select {
	case <-w.done:
	case <-w.ctx.Done():
		if w.state.Swap(left) != answered {
			return outcome{err: noAnswer(w.ctx.Err())}
		}
	}
	return w.answer
}

// end sets the outcome, and reports whether the request waits for it. The group then closes done.
func (w *waiter) end(taken bool, calls int, err error) (waits bool) {
	w.answer.taken, w.answer.err = taken, err
	w.answer.calls += calls
	return w.state.Swap(answered) != left
}

// again puts a member back into the queue. calls is the number of store calls that did not answer it.
func (w *waiter) again(calls int) {
	w.answer.calls += calls
	w.state.CompareAndSwap(sent, waiting)
}

// giveUpLeases reduces each charge to what the request wants. It reports whether a charge was larger.
func (w *waiter) giveUpLeases() (reduced bool) {
	for i := range w.charges {
		if c := &w.charges[i]; c.cost > c.want {
			c.cost, reduced = c.want, true
		}
	}
	return reduced
}
