// Package groups is the layer of group commit: requests of this process that charge the same subject share calls.
package groups

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/parallel"
)

// Groups are the subjects with a call in flight, and the requests that wait for them. At most one call is in flight for a
// subject.
type Groups struct {
	chain.Below
	*chain.Process
	Margin  time.Duration // a request with less time left is not sent
	mu      sync.Mutex
	waiting map[domain.Subject][]*waiter // a subject is in the map only while its call is in flight
}

// Take implements chain.Layer. If a call for the subject is in flight, a waits and shares the next call with other
// requests. On an idle subject, all that follows is one call.
func (g *Groups) Take(a *chain.Ask) {
	began := time.Now()
	defer func() { a.StoreTime += time.Since(began) }()
	if alone(a) {
		g.Below.Take(a)
		return
	}
	subject := a.Charges[0].Subject // a layer below can change it
	if w := g.enter(a); w != nil {
		g.wait(a, w)
		return
	}
	a.Err = domain.ErrUnavailable // this error stays if the store panics
	defer func() {
		if q := g.leave(subject, a); q != nil {
			g.crowd(a)
			go g.serve(q)
		}
	}()
	g.Below.Take(a)
}

// alone reports whether a shares no call with other requests, because it forces a charge or takes slots. A store identifies
// the slots of one call together, but each request must release only its own.
func alone(a *chain.Ask) bool {
	for i := range a.Charges {
		if c := &a.Charges[i]; c.Force || c.Cost > 0 && c.Limit.Concurrent() {
			return true
		}
	}
	return false
}

// enter returns nil if no call for the subject of a is in flight. Then a calls the store, and MUST call leave. Otherwise
// enter returns a waiter for a.
func (g *Groups) enter(a *chain.Ask) *waiter {
	subject := a.Charges[0].Subject
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, inFlight := g.waiting[subject]
	if !inFlight {
		if g.waiting == nil {
			g.waiting = map[domain.Subject][]*waiter{}
		}
		g.waiting[subject] = nil
		return nil
	}
	w := newWaiter(a)
	g.waiting[subject] = append(queue, w)
	return w
}

// wait waits until a group has decided a. If the deadline passes before the call is sent, a is not charged. If it passes
// later, the call can charge a although a fails.
func (g *Groups) wait(a *chain.Ask, w *waiter) {
	select {
	case <-w.done:
	case <-a.Deadline().Done():
		if w.state.Swap(left) != answered {
			a.Fail(g.Health.Late(a.Deadline().Err()))
			return
		}
	}
	if p, ok := errors.AsType[*parallel.Panic](w.Err); ok {
		panic(p)
	}
	a.Calls += w.Calls
	for i := range w.Charges {
		a.Charges[i].Cost = w.Charges[i].Cost // less than before if the group dropped the spares
	}
	copy(a.Results, w.Results)
	a.Answer(w.taken, w.Err)
}

// leave ends the call of a request for which enter returned nil. If other requests wait, it returns them as a group, which
// MUST be served; otherwise nil.
func (g *Groups) leave(subject domain.Subject, a *chain.Ask) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting[subject]) == 0 {
		delete(g.waiting, subject)
		return nil
	}
	q := &group{subject: subject}
	if a.Err == nil {
		q.known, q.states = slices.Clone(a.Charges), slices.Clone(a.Results)
	}
	g.fill(q)
	q.release()
	return q
}

// serve makes calls for q until no request waits.
func (g *Groups) serve(q *group) {
	for waits := len(q.queue) > 0; waits; waits = g.more(q) {
		q.compose()
		if len(q.members) > 0 {
			q.release()
			g.charge(q)
		}
	}
}

// charge makes the call of the members of q.
func (g *Groups) charge(q *group) {
	a, cancel := q.ask()
	defer cancel()
	g.call(a)
	if a.Err != nil && g.crowded(q) {
		g.crowd(a)
	}
	q.finish(a)
}

// crowd marks a timeout of a as that of a busy subject, which comes under pressure, unless the store counts as down. The
// layers below have raised the pressure for other failures of a busy subject.
func (g *Groups) crowd(a *chain.Ask) {
	if err := g.Health.Crowded(a.Err); domain.Busy(err) && !domain.Busy(a.Err) {
		a.Err, a.Verdict = err, chain.Busy
		if !a.Look {
			g.Trackers.RaisePressure(a.Now, a.Charges, false)
		}
	}
}

// call makes the call of a group. If the store panics, each request of the group panics in its own goroutine.
func (g *Groups) call(a *chain.Ask) {
	defer func() {
		if v := recover(); v != nil {
			a.Calls, a.Err = 1, parallel.PanicOf(v)
		}
	}()
	g.Below.Take(a)
}

// more fills q, and releases the requests that have an answer. It returns false if no request waits.
func (g *Groups) more(q *group) bool {
	defer q.release()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fill(q)
}

// fill adds the requests that arrived since the last call to q. If no request waits, it ends the group and returns
// false. The caller holds the lock, and releases no answer of the last call before: a request that has seen an answer
// can change the state that q knows, for example by a refund, and then arrive again.
func (g *Groups) fill(q *group) bool {
	for _, w := range g.waiting[q.subject] {
		w.waited = 1 // w waited for the call that was in flight when it arrived
		q.queue = append(q.queue, w)
	}
	soon := time.Now().Add(g.Margin)
	q.queue = slices.DeleteFunc(q.queue, func(w *waiter) bool {
		if w.state.Load() != waiting {
			return true
		}
		deadline, ok := w.Deadline().Deadline()
		late := ok && deadline.Before(soon)
		if late { // the store would charge the request, but the answer would come too late
			q.end(w, false, g.Health.Late(context.DeadlineExceeded))
		}
		return late
	})
	if len(q.queue) == 0 {
		delete(g.waiting, q.subject)
		return false
	}
	g.waiting[q.subject] = nil
	return true
}

// InFlight returns the number of subjects with a call in flight.
func (g *Groups) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// crowded reports whether the call of q has more than one request, or whether other requests wait for its end.
func (g *Groups) crowded(q *group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(q.queue) > 1 || len(g.waiting[q.subject]) > 0
}
