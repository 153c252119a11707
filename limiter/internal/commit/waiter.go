package commit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// ErrNoAnswer means that the deadline of a request that waited has passed, or is too close for another call. No store
// call returns it.
var ErrNoAnswer = errors.New("no answer in time")

func noAnswer(cause error) error {
	return fmt.Errorf("%w: %w: %w", domain.ErrUnavailable, ErrNoAnswer, cause)
}

// waiterCharge is a charge of a waiter. It is a copy, because a request that no longer waits uses its charges again.
type waiterCharge struct {
	limit *domain.Limit
	want  int64 // cost of the request; 0 if it only looks
	cost  int64 // want, or more if the charge also takes a lease
}

// Outcome is the outcome of a request that waited. If the group gave up its leases, the charges of the waiter have less
// cost than before.
type Outcome struct {
	Taken   bool
	Results []algo.Result // the states after the charges, or the states that refused them
	Calls   int           // number of store calls; only one of the requests that share a call reports it
	Err     error
}

// The states of a waiter.
const (
	waiting  = iota
	sent     // its charges are part of the call in flight
	answered // the outcome is in answer
	left     // the request no longer waits for the outcome
)

// Waiter is a request that waits for its turn.
type Waiter struct {
	request chain.Request   // a copy, because its ask ends when it no longer waits
	ctx     context.Context //nolint:containedctx // it is the deadline of one request among several
	now     algo.Instant
	look    bool
	charges []waiterCharge

	state  atomic.Int32
	calls  int   // calls that have returned since the request arrived
	totals []int // for each charge, the index of its total in the group
	sees   bool  // the call does not charge the request; the request only waits for the returned state

	done   chan struct{} // closed when answer is set
	answer Outcome
}

// Wait returns the outcome of the request. If the deadline of the request passes before its call is
// sent, the request is not charged. If the deadline passes later, the call can charge the request
// although Wait returns ErrNoAnswer.
func (w *Waiter) Wait() Outcome {
	select {
	case <-w.done:
	case <-w.ctx.Done():
		if w.state.Swap(left) != answered {
			return Outcome{Err: noAnswer(w.ctx.Err())}
		}
	}
	return w.answer
}

// end sets the outcome, and reports whether the request waits for it. The group then closes done.
func (w *Waiter) end(taken bool, calls int, err error) (waits bool) {
	w.answer.Taken, w.answer.Err = taken, err
	w.answer.Calls += calls
	return w.state.Swap(answered) != left
}

// again puts a member back into the queue. calls is the number of store calls that did not answer it.
func (w *Waiter) again(calls int) {
	w.answer.Calls += calls
	w.state.CompareAndSwap(sent, waiting)
}

// giveUpLeases reduces each charge to what the request wants. It reports whether a charge was larger.
func (w *Waiter) giveUpLeases() (reduced bool) {
	for i := range w.charges {
		if c := &w.charges[i]; c.cost > c.want {
			c.cost, reduced = c.want, true
		}
	}
	return reduced
}

// Answer sets the answer to a, the ask of w.
func (w *Waiter) Answer(a *chain.Ask, o Outcome) {
	for i, c := range w.charges {
		a.Charges[i].Cost = c.cost
	}
	copy(a.Results, o.Results)
	a.Answer(o.Taken, o.Err)
}
