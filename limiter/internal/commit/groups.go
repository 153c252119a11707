package commit

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// Groups are the subjects with a call in flight, and the requests that wait for them. They are safe for concurrent use.
type Groups struct {
	margin time.Duration // a request with less time left is not sent

	mu      sync.Mutex
	waiting map[domain.Subject][]*Waiter // a subject is in the map only while its call is in flight
}

// Enter returns nil if no call for the subject of a is in flight. Then a calls the store, and MUST call Leave. Otherwise
// Enter returns a waiter with the charges of a.
func (g *Groups) Enter(a *chain.Ask) *Waiter {
	subject := a.Charges[0].Subject
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, inFlight := g.waiting[subject]
	if !inFlight {
		g.waiting[subject] = nil
		return nil
	}
	w := &Waiter{ctx: a.Deadline(), now: a.Now, look: a.Look, charges: chargesOf(a), done: make(chan struct{})}
	w.request, w.totals = *a.Request, make([]int, len(w.charges))
	g.waiting[subject] = append(queue, w)
	return w
}

// Leave ends the call of a request for which Enter returned nil. If other requests wait, it returns them as a group, which
// MUST be served; otherwise nil.
func (g *Groups) Leave(subject domain.Subject, a *chain.Ask) *Group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting[subject]) == 0 {
		delete(g.waiting, subject)
		return nil
	}
	q := &Group{subject: subject, known: statesOf(a)}
	g.fill(q)
	q.Release()
	return q
}

// More fills q, and releases the requests that have an answer. It returns false if no request waits.
func (g *Groups) More(q *Group) bool {
	defer q.Release()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fill(q)
}

// fill adds the requests that arrived since the last call to q. If no request waits, it ends the group and returns
// false. The caller holds the lock, and releases no answer of the last call before: a request that has seen an answer
// can change the state that q knows, for example by a refund, and then arrive again.
func (g *Groups) fill(q *Group) bool {
	for _, w := range g.waiting[q.subject] {
		w.calls = 1 // w waited for the call that was in flight when it arrived
		q.queue = append(q.queue, w)
	}
	soon := time.Now().Add(g.margin)
	q.queue = slices.DeleteFunc(q.queue, func(w *Waiter) bool {
		if w.state.Load() != waiting {
			return true
		}
		deadline, ok := w.ctx.Deadline()
		late := ok && deadline.Before(soon)
		if late { // the store would charge the request, but the answer would come too late
			q.end(w, false, 0, noAnswer(context.DeadlineExceeded))
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

// Crowded reports whether the call of q has more than one request, or whether other requests wait for its end.
func (g *Groups) Crowded(q *Group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(q.queue) > 1 || len(g.waiting[q.subject]) > 0
}

// InFlight returns the number of subjects with a call in flight.
func (g *Groups) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// New returns empty groups. A request with less time left than margin is not sent.
func New(margin time.Duration) *Groups {
	return &Groups{margin: margin, waiting: map[domain.Subject][]*Waiter{}}
}

// chargesOf returns the charges of a for a group of requests.
func chargesOf(a *chain.Ask) []waiterCharge {
	charges := make([]waiterCharge, len(a.Charges))
	for i, c := range a.Charges {
		charges[i] = waiterCharge{limit: c.Limit, want: a.Lines[i].Want, cost: c.Cost}
		if a.Look {
			charges[i].want = 0
		}
	}
	return charges
}

// statesOf returns the states that the call of a returned; none if it failed.
func statesOf(a *chain.Ask) (states []known) {
	if a.Err != nil {
		return nil
	}
	for i, c := range a.Charges {
		states = append(states, known{limit: c.Limit, result: a.Results[i]})
	}
	return states
}
