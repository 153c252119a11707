package limiter

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// groups are the subjects with a call in flight, and the requests that wait for them. They are safe for concurrent use.
type groups struct {
	margin time.Duration // a request with less time left is not sent

	mu      sync.Mutex
	waiting map[Subject][]*waiter // a subject is in the map only while its call is in flight
}

// enter returns nil if no call for the subject is in flight. Then the request calls the store, and MUST call leave.
// Otherwise enter returns a waiter with the charges of the request. ctx has the deadline of the request. If look is
// true, the request charges nothing.
func (g *groups) enter(ctx context.Context, now algo.Instant, subject Subject, look bool, charges func() []waiterCharge) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, inFlight := g.waiting[subject]
	if !inFlight {
		g.waiting[subject] = nil
		return nil
	}
	w := &waiter{ctx: ctx, now: now, look: look, charges: charges(), done: make(chan struct{})}
	w.totals = make([]int, len(w.charges))
	g.waiting[subject] = append(queue, w)
	return w
}

// leave ends the call of a request for which enter returned nil. If other requests wait, it returns them as a group, which
// MUST be served; otherwise nil. The function states returns the states of the call.
func (g *groups) leave(subject Subject, states func() []known) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting[subject]) == 0 {
		delete(g.waiting, subject)
		return nil
	}
	q := &group{subject: subject, known: states()}
	g.fill(q)
	q.release()
	return q
}

// more fills q, and releases the requests that have an answer. It returns false if no request waits.
func (g *groups) more(q *group) bool {
	defer q.release()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fill(q)
}

// fill adds the requests that arrived since the last call to q. If no request waits, it ends the group and returns
// false. The caller holds the lock, and releases no answer of the last call before: a request that has seen an answer
// can change the state that q knows, for example by a refund, and then arrive again.
func (g *groups) fill(q *group) bool {
	for _, w := range g.waiting[q.subject] {
		w.calls = 1 // w waited for the call that was in flight when it arrived
		q.queue = append(q.queue, w)
	}
	soon := time.Now().Add(g.margin)
	q.queue = slices.DeleteFunc(q.queue, func(w *waiter) bool {
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

// crowded reports whether the call of q has more than one request, or whether other requests wait for its end.
func (g *groups) crowded(q *group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(q.queue) > 1 || len(g.waiting[q.subject]) > 0
}
