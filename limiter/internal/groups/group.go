package groups

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// maxCalls is the highest number of calls that a request waits for.
const maxCalls = 6

// group is the queue of a subject, and the call that charges some of its requests.
//
// At most one call is in flight for a subject. Requests that arrive meanwhile wait in a queue. When the call returns,
// the group answers the requests that the returned state refuses. The next call charges the sum of all other
// requests, at the latest of their instants. The result is the same as if the store charged the requests one after
// the other. If the store refuses the sum, the returned state decides which requests the next call charges.
//
// Usually a request waits for two calls: the call in flight when it arrives, and the call that charges it. It waits
// longer if other processes took the quota that the returned state still had. Then each call charges half of the
// requests that still fit.
type group struct {
	subject domain.Subject
	queue   []*waiter       // waiting requests, in order of arrival
	known   []domain.Charge // what the last call charged; none if it failed
	states  []algo.Result   // the states that it returned
	raced   bool            // the store refused the call although the known state had room, so other processes write too

	// These fields describe the next call, or the call in flight.
	members []*waiter
	at      algo.Instant
	totals  []total
	ended   []*waiter // requests that have an answer, and do not see it yet
}

// end sets the answer to w, which sees it after release.
func (g *group) end(w *waiter, taken bool, err error) {
	w.taken, w.Err = taken, err
	if w.state.Swap(answered) != left {
		g.ended = append(g.ended, w)
	}
}

// release shows the requests their answers.
func (g *group) release() {
	for _, w := range g.ended {
		close(w.done)
	}
	g.ended = g.ended[:0]
}

// total is what a group charges on one limit.
type total struct {
	limit *domain.Limit
	cost  int64         // sum over the members
	known algo.Result   // the state that the last call returned; zero if none
	next  algo.Result   // the state after the charges of the members so far
	least domain.Charge // the charge of a member that needs the least room

	// bound is the largest count with which every member is admitted in its turn: the smallest, over the members, of the
	// threshold minus all costs up to its own. percent is the smallest part of the members (algo.Rate.Percent).
	bound, percent int64
}

// compose answers the requests that the known state refuses. The other requests become members in order of arrival,
// as far as they fit. The rest wait for the result of the call.
func (g *group) compose() {
	g.gather(len(g.queue))
	if n := len(g.members); g.raced && n > 1 { // if the sum is smaller, the store refuses it less often
		for _, w := range g.members {
			w.again()
		}
		g.gather((n + 1) / 2)
	}
}

// gather takes requests from the queue and makes them the members of the next call. most is the highest
// number of members.
func (g *group) gather(most int) {
	first := g.queue[0]
	g.members, g.totals, g.at = g.members[:0], g.totals[:0], first.Now
	for _, w := range g.queue {
		if compatible(w, first) {
			g.at = max(g.at, w.Now)
		}
	}
	for _, w := range g.queue {
		if !compatible(w, first) || len(g.members) == most || w.state.Load() != waiting {
			continue
		}
		totals, members := len(g.totals), len(g.members)
		if g.addTotals(w) {
			g.join(w)
		}
		if len(g.members) == members {
			g.totals = g.totals[:totals]
		}
	}
}

// compatible reports whether the instants of both requests are close, so that one call can charge them.
func compatible(w, first *waiter) bool {
	return w == first || w.Now.Sub(first.Now).Abs() < domain.MinWindow
}

// addTotals finds or adds the totals of the charges of w. It returns false if they do not fit into one
// call.
func (g *group) addTotals(w *waiter) bool {
	for i, c := range w.Charges {
		at := slices.IndexFunc(g.totals, func(t total) bool { return t.limit.ID == c.Limit.ID })
		if at < 0 {
			at = len(g.totals)
			t := total{limit: c.Limit, next: algo.Result{Machine: c.Limit.Machine()}}
			if k := slices.IndexFunc(g.known, func(k domain.Charge) bool { return k.Limit.CountsWith(c.Limit) }); k >= 0 {
				t.known = g.states[k]
				t.known.Clamped = false // an earlier answer has reported this clamp
				t.next = t.known
			}
			g.totals = append(g.totals, t)
		}
		if !g.totals[at].limit.CountsWith(c.Limit) || at >= domain.MaxCharges {
			return false
		}
		w.totals[i] = at
	}
	return true
}

// join makes w a member, answers it, or leaves it in the queue.
func (g *group) join(w *waiter) {
	knows := g.knows(w)
	if knows && (w.Look || g.refuses(w)) {
		g.answerKnown(w)
		return
	}
	fits := !w.Look && (g.fits(w) || w.DropSpares() && g.fits(w))
	switch {
	case !fits && g.refuses(w):
		g.answerKnown(w)
	case !fits && knows: // w waits, because requests before it take the room
	case w.waited >= maxCalls:
		g.end(w, false, domain.AsBusy(fmt.Errorf("%w: too many calls: waited for %d", domain.ErrContended, w.waited)))
	case w.state.CompareAndSwap(waiting, sent):
		w.sees = !fits
		g.members = append(g.members, w)
		for i, c := range w.Charges {
			if fits {
				g.totals[w.totals[i]].add(c, g.at)
			}
		}
	}
}

func (t *total) add(c domain.Charge, at algo.Instant) {
	m := c.Limit.View(t.next).Machine
	room := m.Capacity() - c.Cost
	if t.cost == 0 {
		t.least, t.bound, t.percent = c, math.MaxInt64, math.MaxInt64
	} else if room > t.least.Limit.View(t.next).Machine.Capacity()-t.least.Cost {
		t.least = c
	}
	t.bound, t.percent = min(t.bound, room-t.cost), min(t.percent, c.Limit.Rate.Percent)
	t.next.State, _ = m.Take(t.next.State, at, c.Cost)
	t.cost += c.Cost
}

// charged returns the limit that the call charges with the costs of all members: it admits them only if every member is
// admitted in its turn.
func (t *total) charged() *domain.Limit {
	if t.limit.Rate.Of == 0 || t.cost == 0 {
		return t.limit
	}
	return t.limit.Within(t.next.Machine, t.bound+t.cost, t.percent)
}

// knows reports whether the last call returned the state of every limit of w.
func (g *group) knows(w *waiter) bool {
	for _, at := range w.totals {
		if g.totals[at].known.Machine == nil {
			return false
		}
	}
	return true
}

// fits reports whether the charges of w are allowed after those of the members.
func (g *group) fits(w *waiter) bool {
	for i, c := range w.Charges {
		if c.Limit.View(g.totals[w.totals[i]].next).RetryAfter(g.at, c.Cost) > 0 {
			return false
		}
	}
	return true
}

// refuses reports whether the known state refuses w, even if no other request is charged.
func (g *group) refuses(w *waiter) bool {
	for i, c := range w.Charges {
		if k := g.totals[w.totals[i]].known; k.Machine != nil && c.Limit.View(k).RetryAfter(g.at, w.Lines[i].Want) > 0 {
			return true
		}
	}
	return false
}

// answerKnown answers w with the known states, which include no charge of w.
func (g *group) answerKnown(w *waiter) {
	for i, at := range w.totals {
		w.Results = append(w.Results, w.Charges[i].Limit.View(g.totals[at].known))
	}
	g.end(w, false, nil)
}

// context returns the context of the first member, with the latest deadline of all members. If a member
// leaves, the context continues.
func (g *group) context() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(g.members[0].Deadline())
	var latest time.Time
	for _, w := range g.members {
		deadline, ok := w.Deadline().Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(ctx, latest)
}

// finish answers the members after their call. If the store refused the sum of their charges, they wait
// for the next call.
func (g *group) finish(a *chain.Ask) {
	g.known, g.states, g.raced = nil, nil, false
	g.members[0].Calls += a.Calls // one member reports them
	for _, w := range g.queue {
		w.waited++
	}
	if a.Err != nil {
		for _, w := range g.members {
			g.end(w, false, a.Err)
		}
		return
	}
	raced := !slices.ContainsFunc(g.totals, func(t total) bool { return t.known.Machine == nil })
	g.known, g.states = a.Charges, a.Results
	for i, r := range a.Results {
		g.totals[i].known, g.totals[i].next = r, r
	}
	switch {
	case a.Verdict == chain.Admitted:
		g.answerTaken()
	case len(g.members) == 1 && !g.members[0].sees && !g.members[0].DropSpares(): // the state refuses this request
		g.answerKnown(g.members[0])
	default:
		g.raced = raced
		for _, w := range g.members {
			w.again()
		}
	}
}

// answerTaken answers each member with the state after its own charge.
func (g *group) answerTaken() {
	for i, w := range slices.Backward(g.members) {
		w.Results = make([]algo.Result, len(w.Charges))
		for j, c := range w.Charges {
			next := &g.totals[w.totals[j]].next
			w.Results[j] = c.Limit.View(algo.Result{Machine: next.Machine, State: next.State, Clamped: i == 0 && next.Clamped})
			if !w.sees {
				next.State = without(next.Machine, next.State, c.Cost)
			}
		}
	}
	for _, w := range g.members {
		// The request waited for this call, which did not charge it. The next call charges it if the returned state
		// has room.
		if w.sees && !w.Look {
			w.Results = nil
			w.again()
		} else {
			g.end(w, true, nil)
		}
	}
}

// without returns the state s without its last charge, which had the given cost. Unlike Refund, it leaves no
// trace of a refund in the state.
func without(m algo.Machine, s algo.State, cost int64) algo.State {
	before := m.Refund(s, s, cost, 0)
	before.Refunds = s.Refunds
	return before
}

// ask returns the ask of the members. The caller MUST call cancel after it.
func (g *group) ask() (a *chain.Ask, cancel context.CancelFunc) {
	ctx, cancel := g.context()
	a = &chain.Ask{Request: g.members[0].request.Within(ctx, g.at), Subject: g.subject, Group: true}
	for _, t := range g.totals {
		limit := t.charged()
		line := chain.Line{Limit: t.limit, Want: t.cost}
		if t.cost > 0 {
			line.Least = &t.least
		}
		a.Add(line, domain.Charge{Subject: g.subject, Limit: limit, Cost: t.cost},
			limit.View(t.known))
	}
	return a, cancel
}

// The states of a waiter.
const (
	waiting  = iota
	sent     // its charges are part of the call in flight
	answered // it has its answer
	left     // the request no longer waits for it
)

// waiter is a request that waits for its turn.
type waiter struct {
	chain.Ask // a copy, because a request that no longer waits uses its own again
	request   chain.Request
	taken     bool

	state  atomic.Int32
	waited int   // calls that have returned since the request arrived
	totals []int // for each charge, the index of its total in the group
	sees   bool  // the call does not charge the request; the request only waits for the returned state

	done chan struct{} // closed when the request may see its answer
}

func newWaiter(a *chain.Ask) *waiter {
	a.Deadline()
	w := &waiter{request: *a.Request, totals: make([]int, len(a.Charges)), done: make(chan struct{})}
	w.Ask = chain.Ask{Request: &w.request, Lines: slices.Clone(a.Lines), Charges: slices.Clone(a.Charges)}
	if a.Look {
		for i := range w.Lines {
			w.Lines[i].Want = 0
		}
	}
	return w
}

// again puts a member back into the queue.
func (w *waiter) again() { w.state.CompareAndSwap(sent, waiting) }
