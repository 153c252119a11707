package group

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Call is one call of the store for a group.
type Call[S comparable, T any] struct {
	Subject S
	At      algo.Instant
	Charges []Charge[T] // the Cost of each is the sum for all members
	Least   []int64     // smallest cost of a member, for each charge
	// Results holds the last known states on entry, and the states after the call on return.
	Results []algo.Result
	// Crowded reports whether the call has more than one request, or whether other requests wait for its
	// end.
	Crowded func() bool
}

// Store makes the calls of groups.
type Store[S comparable, T any] interface {
	// Charge calls the store, and may repeat the call. calls is the number of calls. Charge MUST recover
	// from panics of the store, because it runs in a separate goroutine.
	Charge(ctx context.Context, c *Call[S, T]) (taken bool, calls int, err error)
}

// Groups are the subjects with a call in flight, and the requests that wait for them. They are safe
// for concurrent use.
type Groups[S comparable, T any] struct {
	store   Store[S, T]
	options Options

	mu      sync.Mutex
	waiting map[S][]*Waiter[T] // a subject is in the map only while its call is in flight
}

// New returns Groups that call store.
func New[S comparable, T any](store Store[S, T], o Options) *Groups[S, T] {
	return &Groups[S, T]{store: store, options: o, waiting: map[S][]*Waiter[T]{}}
}

// Enter returns nil if no call for the subject is in flight. Then the request calls the store, and MUST call
// Leave. Otherwise Enter returns a Waiter with the charges of the request. ctx has the deadline of the request.
// If look is true, the request charges nothing.
func (g *Groups[S, T]) Enter(ctx context.Context, now algo.Instant, subject S, look bool, charges func() []Charge[T]) *Waiter[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, inFlight := g.waiting[subject]
	if !inFlight {
		g.waiting[subject] = nil
		return nil
	}
	w := &Waiter[T]{ctx: ctx, now: now, look: look, charges: charges(), done: make(chan struct{})}
	w.totals = make([]int, len(w.charges))
	g.waiting[subject] = append(queue, w)
	return w
}

// Leave ends the call of a request for which Enter returned nil. It reports whether other requests wait; these
// form a group. The function known returns the states that the call returned.
func (g *Groups[S, T]) Leave(subject S, known func() []Known) (crowded bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting[subject]) == 0 {
		delete(g.waiting, subject)
		return false
	}
	q := &group[S, T]{options: g.options, subject: subject, known: known()}
	waits := g.fill(q)
	q.release()
	if waits {
		go g.serve(q)
	}
	return true
}

// InFlight returns the number of subjects with a call in flight.
func (g *Groups[S, T]) InFlight() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// serve makes calls for q until no request waits.
func (g *Groups[S, T]) serve(q *group[S, T]) {
	for waits := true; waits; waits = g.more(q) {
		q.compose()
		if len(q.members) > 0 {
			q.release()
			g.charge(q)
		}
	}
}

// more fills q, and releases the requests that have an answer.
func (g *Groups[S, T]) more(q *group[S, T]) bool {
	defer q.release()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fill(q)
}

// fill adds the requests that arrived since the last call to q. If no request waits, it ends the group and returns
// false. The caller holds the lock, and releases no answer of the last call before: a request that has seen an answer
// can change the state that q knows, for example by a refund, and then arrive again.
func (g *Groups[S, T]) fill(q *group[S, T]) bool {
	for _, w := range g.waiting[q.subject] {
		w.calls = 1 // w waited for the call that was in flight when it arrived
		q.queue = append(q.queue, w)
	}
	soon := time.Now().Add(g.options.Margin)
	q.queue = slices.DeleteFunc(q.queue, func(w *Waiter[T]) bool {
		if w.state.Load() != waiting {
			return true
		}
		deadline, ok := w.ctx.Deadline()
		late := ok && deadline.Before(soon)
		if late { // the store would charge the request, but the answer would come too late
			q.end(w, false, 0, fmt.Errorf("%w: %w", ErrDeadline, context.DeadlineExceeded))
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

func (g *Groups[S, T]) charge(q *group[S, T]) {
	c := &Call[S, T]{Subject: q.subject, At: q.at, Crowded: func() bool { return g.crowded(q) }}
	for _, t := range q.totals {
		c.Charges, c.Least, c.Results = append(c.Charges, t.Charge), append(c.Least, t.least), append(c.Results, t.known)
	}
	ctx, cancel := q.context()
	defer cancel()
	taken, calls, err := g.store.Charge(ctx, c)
	q.finish(taken, c.Results, calls, err)
}

func (g *Groups[S, T]) crowded(q *group[S, T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(q.queue) > 1 || len(g.waiting[q.subject]) > 0
}
