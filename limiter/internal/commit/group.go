// Package commit has group commit: requests of a process that charge the same subject share store calls.
package commit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// maxCalls is the highest number of calls that a request waits for.
const maxCalls = 6

// Group implements group commit: requests that charge the same subject share store calls. It is the queue of a subject,
// and the call that charges some of its requests.
//
// At most one call is in flight for a subject. Requests that arrive meanwhile wait in a queue. When the call returns,
// the group answers the requests that the returned state refuses. The next call charges the sum of all other
// requests, at the latest of their instants. The result is the same as if the store charged the requests one after
// the other. If the store refuses the sum, the returned state decides which requests the next call charges.
//
// Usually a request waits for two calls: the call in flight when it arrives, and the call that charges it. It waits
// longer if other processes took the quota that the returned state still had. Then each call charges half of the
// requests that still fit.
type Group struct {
	subject domain.Subject
	queue   []*Waiter // waiting requests, in order of arrival
	known   []known   // states that the last call returned; none if it failed
	raced   bool      // the store refused the call although the known state had room, so other processes write too

	// These fields describe the next call, or the call in flight.
	members []*Waiter
	at      algo.Instant
	totals  []total
	ended   []*Waiter // requests that have an answer, and do not see it yet
}

// end sets the outcome of w. calls is the number of store calls that this request reports.
func (g *Group) end(w *Waiter, taken bool, calls int, err error) {
	if w.end(taken, calls, err) {
		g.ended = append(g.ended, w)
	}
}

// Release shows the requests their answers.
func (g *Group) Release() {
	for _, w := range g.ended {
		close(w.done)
	}
	g.ended = g.ended[:0]
}

// known is the state of a limit that a call returned.
type known struct {
	limit  *domain.Limit
	result algo.Result
}

// total is what a group charges on one limit.
type total struct {
	limit *domain.Limit
	cost  int64         // sum over the members
	known algo.Result   // the state that the last call returned; zero if none
	next  algo.Result   // the state after the charges of the members so far
	least domain.Charge // the charge of a member that needs the least room, without its subject

	// bound is the largest count with which every member is admitted in its turn: the smallest, over the members, of the
	// threshold minus all costs up to its own.
	bound int64
}

// Compose answers the requests that the known state refuses. The other requests become members in order of arrival,
// as far as they fit. The rest wait for the result of the call.
func (g *Group) Compose() {
	g.gather(len(g.queue))
	if n := len(g.members); g.raced && n > 1 { // if the sum is smaller, the store refuses it less often
		for _, w := range g.members {
			w.again(0)
		}
		g.gather((n + 1) / 2)
	}
}

// gather takes requests from the queue and makes them the members of the next call. most is the highest
// number of members.
func (g *Group) gather(most int) {
	first := g.queue[0]
	g.members, g.totals, g.at = g.members[:0], g.totals[:0], first.now
	for _, w := range g.queue {
		if g.compatible(w, first) {
			g.at = max(g.at, w.now)
		}
	}
	for _, w := range g.queue {
		if !g.compatible(w, first) || len(g.members) == most || w.state.Load() != waiting {
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
func (g *Group) compatible(w, first *Waiter) bool {
	return w == first || w.now.Sub(first.now).Abs() < domain.MinWindow
}

// addTotals finds or adds the totals of the charges of w. It returns false if they do not fit into one
// call.
func (g *Group) addTotals(w *Waiter) bool {
	for i, c := range w.charges {
		at := slices.IndexFunc(g.totals, func(t total) bool { return t.limit.ID == c.limit.ID })
		if at < 0 {
			at = len(g.totals)
			t := total{limit: c.limit, next: algo.Result{Machine: c.limit.Machine()}}
			if k := slices.IndexFunc(g.known, func(k known) bool { return k.limit.CountsWith(c.limit) }); k >= 0 {
				t.known = g.known[k].result
				t.known.Clamped = false // an earlier answer has reported this clamp
				t.next = t.known
			}
			g.totals = append(g.totals, t)
		}
		if !g.totals[at].limit.CountsWith(c.limit) || at >= domain.MaxCharges {
			return false
		}
		w.totals[i] = at
	}
	return true
}

// join makes w a member, answers it, or leaves it in the queue.
func (g *Group) join(w *Waiter) {
	knows := g.knows(w)
	if knows && (w.look || g.refuses(w)) {
		g.answerKnown(w)
		return
	}
	fits := !w.look && (g.fits(w) || w.giveUpLeases() && g.fits(w))
	switch {
	case !fits && g.refuses(w):
		g.answerKnown(w)
	case !fits && knows: // w waits, because requests before it take the room
	case w.calls >= maxCalls:
		g.end(w, false, 0, domain.AsBusy(fmt.Errorf("%w: too many calls: waited for %d", domain.ErrContended, w.calls)))
	case w.state.CompareAndSwap(waiting, sent):
		w.sees = !fits
		g.members = append(g.members, w)
		for i, c := range w.charges {
			if fits {
				g.totals[w.totals[i]].add(c, g.at)
			}
		}
	}
}

func (t *total) add(c waiterCharge, at algo.Instant) {
	m := c.limit.View(t.next).Machine
	room := m.Capacity() - c.cost
	if t.cost == 0 || room > t.least.Limit.View(t.next).Machine.Capacity()-t.least.Cost {
		t.least = domain.Charge{Limit: c.limit, Cost: c.cost}
	}
	if t.cost == 0 || room-t.cost < t.bound {
		t.bound = room - t.cost
	}
	t.next.State, _ = m.Take(t.next.State, at, c.cost)
	t.cost += c.cost
}

// charged returns the limit that the call charges with the costs of all members: it admits them only if every member is
// admitted in its turn.
func (t *total) charged() *domain.Limit {
	if t.limit.Rate.Of == 0 || t.cost == 0 {
		return t.limit
	}
	return t.limit.Within(t.bound + t.cost)
}

// knows reports whether the last call returned the state of every limit of w.
func (g *Group) knows(w *Waiter) bool {
	for _, at := range w.totals {
		if g.totals[at].known.Machine == nil {
			return false
		}
	}
	return true
}

// fits reports whether the charges of w are allowed after those of the members.
func (g *Group) fits(w *Waiter) bool {
	for i, c := range w.charges {
		if c.limit.View(g.totals[w.totals[i]].next).RetryAfter(g.at, c.cost) > 0 {
			return false
		}
	}
	return true
}

// refuses reports whether the known state refuses w, even if no other request is charged.
func (g *Group) refuses(w *Waiter) bool {
	for i, c := range w.charges {
		if k := g.totals[w.totals[i]].known; k.Machine != nil && c.limit.View(k).RetryAfter(g.at, c.want) > 0 {
			return true
		}
	}
	return false
}

// answerKnown answers w with the known states, which include no charge of w.
func (g *Group) answerKnown(w *Waiter) {
	for i, at := range w.totals {
		w.answer.Results = append(w.answer.Results, w.charges[i].limit.View(g.totals[at].known))
	}
	g.end(w, false, 0, nil)
}

// context returns the context of the first member, with the latest deadline of all members. If a member
// leaves, the context continues.
func (g *Group) context() (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(g.members[0].ctx)
	var latest time.Time
	for _, w := range g.members {
		deadline, ok := w.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(ctx, latest)
}

// Finish answers the members after their call. If the store refused the sum of their charges, they wait
// for the next call.
func (g *Group) Finish(a *chain.Ask) {
	taken, results, calls, err := a.Verdict == chain.Admitted, a.Results, a.Calls, a.Err
	g.known, g.raced = g.known[:0], false
	for _, w := range g.queue {
		w.calls++
	}
	if err != nil {
		for i, w := range g.members {
			g.end(w, false, ofFirst(i, calls), err)
		}
		return
	}
	for i := range g.totals {
		t := &g.totals[i]
		t.next = results[i]
		g.known = append(g.known, known{t.limit, results[i]})
	}
	switch {
	case taken:
		g.answerTaken(calls)
	case len(g.members) == 1 && !g.members[0].sees && !g.members[0].giveUpLeases(): // the state refuses this request
		w := g.members[0]
		for i, at := range w.totals {
			w.answer.Results = append(w.answer.Results, w.charges[i].limit.View(g.totals[at].next))
		}
		g.end(w, false, calls, nil)
	default:
		g.raced = !slices.ContainsFunc(g.totals, func(t total) bool { return t.known.Machine == nil })
		for i, w := range g.members {
			w.again(ofFirst(i, calls))
		}
	}
}

// answerTaken answers each member with the state after its own charge.
func (g *Group) answerTaken(calls int) {
	for i, w := range slices.Backward(g.members) {
		w.answer.Results = make([]algo.Result, len(w.charges))
		for j, c := range w.charges {
			next := &g.totals[w.totals[j]].next
			w.answer.Results[j] = c.limit.View(algo.Result{Machine: next.Machine, State: next.State, Clamped: i == 0 && next.Clamped})
			if !w.sees {
				next.State = without(next.Machine, next.State, c.cost)
			}
		}
	}
	for i, w := range g.members {
		// The request waited for this call, which did not charge it. The next call charges it if the returned state
		// has room.
		if w.sees && !w.look {
			w.answer.Results = nil
			w.again(ofFirst(i, calls))
		} else {
			g.end(w, true, ofFirst(i, calls), nil)
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

// ofFirst returns the number calls for the first member and 0 for the other members, so that the store calls of
// the group are reported once.
func ofFirst(i, calls int) int {
	if i == 0 {
		return calls
	}
	return 0
}

// Waits reports whether requests wait.
func (g *Group) Waits() bool { return len(g.queue) > 0 }

// Ask returns the ask of the members; nil if there are none. The caller MUST call cancel after it.
func (g *Group) Ask() (a *chain.Ask, cancel context.CancelFunc) {
	if len(g.members) == 0 {
		return nil, nil
	}
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
