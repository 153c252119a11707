package group

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-limits/weir/limiter/algo"
)

// Errors of an Answer. The group sets them; no store call returns them.
var (
	// ErrDeadline means that the deadline of a request has passed, or is too close for another call.
	ErrDeadline = errors.New("no answer in time")
	// ErrContended means that a request waited for too many calls, because other processes charge the
	// subject too.
	ErrContended = errors.New("too many calls")
)

// Limit is a limit of a subject under one version of its rules.
type Limit struct {
	ID      uint64
	Version int64
	Machine algo.Machine
}

// same reports whether both are one limit under the same rules.
func (l Limit) same(other Limit) bool {
	return l.ID == other.ID && l.Version == other.Version &&
		(l.Machine == other.Machine || l.Machine.Fingerprint() == other.Machine.Fingerprint())
}

// Charge is a charge of a request. T is the type by which the Store identifies the limit.
type Charge[T any] struct {
	Limit  Limit
	Target T
	Want   int64 // cost of the request
	Cost   int64 // Want, or more if the charge also takes a lease
}

// Answer is the outcome of a request.
type Answer struct {
	Taken   bool
	Costs   []int64       // charged cost of each charge; less than Charge.Cost if the group gave up a lease
	Results []algo.Result // the states after the charges, or the states that refused them
	Calls   int           // number of store calls; only one of the requests that share a call reports it
	Err     error
}

// The states of a Waiter.
const (
	waiting  = iota
	sent     // its charges are part of the call in flight
	answered // the outcome is in answer
	left     // the request no longer waits for the outcome
)

// Waiter is a request that waits for its turn.
type Waiter[T any] struct {
	ctx     context.Context //nolint:containedctx // it is the deadline of one request among several
	now     algo.Instant
	look    bool
	charges []Charge[T]

	state  atomic.Int32
	calls  int   // calls that have returned since the request arrived
	totals []int // for each charge, the index of its total in the group
	sees   bool  // the call does not charge the request; the request only waits for the returned state

	done   chan struct{} // closed when answer is set
	answer Answer
}

// Wait returns the outcome of the request. If the deadline of the request passes before its call is
// sent, the request is not charged. If the deadline passes later, the call can charge the request
// although Wait returns ErrDeadline.
func (w *Waiter[T]) Wait() Answer {
	select {
	case <-w.done:
	case <-w.ctx.Done():
		if w.state.Swap(left) != answered {
			return Answer{Err: fmt.Errorf("%w: %w", ErrDeadline, w.ctx.Err())}
		}
	}
	for _, c := range w.charges {
		w.answer.Costs = append(w.answer.Costs, c.Cost)
	}
	return w.answer
}

// end sets the outcome, and reports whether the request waits for it. The group then closes done.
func (w *Waiter[T]) end(taken bool, calls int, err error) (waits bool) {
	w.answer.Taken, w.answer.Err = taken, err
	w.answer.Calls += calls
	return w.state.Swap(answered) != left
}

// again puts a member back into the queue. calls is the number of store calls that did not answer it.
func (w *Waiter[T]) again(calls int) {
	w.answer.Calls += calls
	w.state.CompareAndSwap(sent, waiting)
}

// giveUpLeases reduces each charge to Want. It reports whether a charge was larger.
func (w *Waiter[T]) giveUpLeases() (reduced bool) {
	for i := range w.charges {
		if c := &w.charges[i]; c.Cost > c.Want {
			c.Cost, reduced = c.Want, true
		}
	}
	return reduced
}
