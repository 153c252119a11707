package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Group commit. At most one call of a shared store is in flight for a subject. Requests of that
// subject that come meanwhile wait. When the call returns, those that the returned state refuses
// are answered, and one call charges all others: as if they had been charged one after the other,
// in order of arrival, at the latest of their instants. If the store refuses the sum, the state
// that it returns decides who is charged by the next call.
//
// Charges with Force go to the store by themselves: they pass whatever the state is, so they
// cannot share a call with charges that may be refused.

// mostCalls is the highest number of calls that a request waits for. These are the call in flight
// when it arrives and the call that charges it. There are more only if writers in other processes
// took the remaining room. Each time, the next call charges half of the requests that still fit.
const mostCalls = 6

// groups are the subjects of a shared store with a call in flight, and the requests that wait for
// it. A subject is in groups only while its call is in flight.
type groups struct {
	mu      sync.Mutex
	waiting map[Subject][]*waiter
}

// The states of a waiter.
const (
	waits    = iota
	sent     // its charge is part of the call in flight
	answered // the outcome is there
	left     // the request no longer waits for the outcome
)

// waiter is the charges of a request on one subject while they wait for their turn.
type waiter struct {
	ctx     context.Context //nolint:containedctx // it is the deadline of one request among several
	now     algo.Instant
	look    bool
	charges []Charge
	wants   []int64 // costs of the request alone, without what a lease adds

	state atomic.Int32
	calls int              // that have returned since it came
	at    [MaxCharges]int8 // the total of each charge, in the group that charges it
	sees  bool             // a member that is not charged: it waits for the state

	done    chan struct{} // closed when the outcome is there:
	taken   bool
	made    int // of the calls, those that this request reports
	err     error
	results []algo.Result
}

// enter reports whether p may call the store now; then leave MUST follow. If a call for its subject
// is in flight, enter returns a waiter for p instead.
func (g *groups) enter(ctx context.Context, r *request, p *part) *waiter {
	subject := p.charges[0].Subject
	g.mu.Lock()
	defer g.mu.Unlock()
	queue, inFlight := g.waiting[subject]
	if !inFlight {
		g.waiting[subject] = nil
		return nil
	}
	w := &waiter{ctx: ctx, now: r.now, look: r.look, charges: slices.Clone(p.charges), wants: make([]int64, len(p.items)),
		done: make(chan struct{}), results: make([]algo.Result, len(p.charges))}
	for i := range p.items {
		if !r.look {
			w.wants[i] = p.items[i].want
		}
	}
	g.waiting[subject] = append(queue, w)
	return w
}

// leave ends the call of p, which entered. The requests that wait for the call form the next group.
func (l *Limiter) leave(p *part) {
	subject := p.charges[0].Subject
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	if len(l.groups.waiting[subject]) == 0 {
		delete(l.groups.waiting, subject)
		return
	}
	p.err = l.crowded(p.err)
	next := &group{subject: subject}
	if p.err == nil {
		for i, c := range p.charges {
			next.known = append(next.known, total{Charge: c, result: p.results[i]})
		}
	}
	go l.serve(next)
}

// wait waits for the outcome of p as part of a group. A request whose deadline passes before its
// call is sent is not charged; after that it stays charged.
func (l *Limiter) wait(p *part, w *waiter) {
	select {
	case <-w.done:
	case <-w.ctx.Done():
		if w.state.Swap(left) != answered {
			p.err = l.crowded(fmt.Errorf("%w: %w", ErrUnavailable, w.ctx.Err()))
			return
		}
	}
	p.taken, p.err = w.taken, w.err
	p.calls += w.made
	copy(p.charges, w.charges)
	copy(p.results, w.results)
}

// group is the requests that wait for a subject, and the call that charges some of them.
type group struct {
	subject Subject
	queue   []*waiter // in order of arrival
	known   []total   // what the last call returned; nothing if it failed
	raced   bool      // the call was refused although the known state had room: others write too

	// The next call, or the one in flight:
	members []*waiter
	at      algo.Instant
	totals  []total
	charges []Charge
	results []algo.Result
}

// total is what a group charges on one limit.
type total struct {
	Charge             // the sum of the members' costs
	known  algo.Result // as the last call returned it; the zero value if it did not
	next   algo.Result // with the charges of the members so far
	result algo.Result // as this call returned it
	least  int64       // of the members' costs
}

// serve makes calls until no request waits for the subject of g.
func (l *Limiter) serve(g *group) {
	for l.more(g) {
		g.compose()
		if len(g.members) > 0 {
			taken, calls, err := l.charge(g)
			l.finish(g, taken, calls, err)
		}
	}
}

// more adds the requests since its last call to the queue of g, and reports whether any request
// waits. If none does, no call is in flight any more.
func (l *Limiter) more(g *group) bool {
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	for _, w := range l.groups.waiting[g.subject] {
		w.calls = 1 // the one that was in flight
		g.queue = append(g.queue, w)
	}
	soon := time.Now().Add(l.timeout / 10)
	g.queue = slices.DeleteFunc(g.queue, func(w *waiter) bool {
		if w.state.Load() != waits {
			return true
		}
		deadline, ok := w.ctx.Deadline()
		late := ok && deadline.Before(soon)
		if late { // it would be charged, and not see the answer
			w.answer(false, 0, l.crowded(errLate))
		}
		return late
	})
	if len(g.queue) == 0 {
		delete(l.groups.waiting, g.subject)
		return false
	}
	l.groups.waiting[g.subject] = nil
	return true
}

var errLate = fmt.Errorf("%w: too late for a call: %w", ErrUnavailable, context.DeadlineExceeded)

// compose answers the requests in the queue that the known state refuses. All requests that then
// still fit become members, in order of arrival. The others wait for the result of the call.
func (g *group) compose() {
	g.gather(len(g.queue))
	if n := len(g.members); g.raced && n > 1 { // a smaller sum is refused less often
		for _, w := range g.members {
			w.state.CompareAndSwap(sent, waits)
		}
		g.gather((n + 1) / 2)
	}
}

// gather makes at most the given number of requests members.
func (g *group) gather(most int) {
	first := g.queue[0]
	g.members, g.totals, g.at = g.members[:0], g.totals[:0], first.now
	for _, w := range g.queue {
		if w.near(first) {
			g.at = max(g.at, w.now)
		}
	}
	for _, w := range g.queue {
		if !w.near(first) || len(g.members) == most || w.state.Load() != waits {
			continue
		}
		totals, members := len(g.totals), len(g.members)
		if g.place(w) {
			g.join(w)
		}
		if len(g.members) == members {
			g.totals = g.totals[:totals]
		}
	}
}

// near reports whether w can be charged at an instant of first, by the same rules.
func (w *waiter) near(first *waiter) bool {
	return w == first || w.now.Sub(first.now).Abs() < MinWindow && !slices.ContainsFunc(w.charges, func(c Charge) bool {
		return c.Limit.Version != first.charges[0].Limit.Version
	})
}

// place finds the totals of the charges of w. It reports false if they do not fit into one call.
func (g *group) place(w *waiter) bool {
	for i, c := range w.charges {
		at := slices.IndexFunc(g.totals, func(t total) bool { return t.Limit.ID == c.Limit.ID })
		if at < 0 {
			at = len(g.totals)
			t := total{Charge: Charge{Subject: c.Subject, Limit: c.Limit}, next: algo.Result{Machine: c.Limit.machine}}
			if k := slices.IndexFunc(g.known, func(k total) bool { return k.Limit.same(c.Limit) }); k >= 0 {
				t.known = g.known[k].result
				t.known.Clamped = false // that was answered
				t.next = t.known
			}
			g.totals = append(g.totals, t)
		}
		if !g.totals[at].Limit.same(c.Limit) || at >= MaxCharges {
			return false
		}
		w.at[i] = int8(at)
	}
	return true
}

// same reports whether l and other are one limit under the same rules.
func (l *Limit) same(other *Limit) bool {
	return l == other || l.ID == other.ID && l.Version == other.Version && l.fingerprint == other.fingerprint
}

// join makes w a member, answers it, or leaves it in the queue.
func (g *group) join(w *waiter) {
	known := g.knows(w)
	if known && (w.look || g.refuses(w)) {
		g.answerKnown(w)
		return
	}
	fits := !w.look && (g.fits(w) || w.shrink() && g.fits(w))
	switch {
	case !fits && g.refuses(w):
		g.answerKnown(w)
	case !fits && known: // others take the room before it
	case w.calls >= mostCalls:
		w.answer(false, 0, pressure(fmt.Errorf("%w: %d calls", ErrContended, w.calls)))
	case w.state.CompareAndSwap(waits, sent):
		w.sees = !fits
		g.members = append(g.members, w)
		for i := range w.charges {
			g.totals[w.at[i]].add(w, i, g.at)
		}
	}
}

// knows reports whether the last call returned the state of every limit of w.
func (g *group) knows(w *waiter) bool {
	for i := range w.charges {
		if g.totals[w.at[i]].known.Machine == nil {
			return false
		}
	}
	return true
}

// fits reports whether the charges of w pass after those of the members.
func (g *group) fits(w *waiter) bool {
	for i, c := range w.charges {
		if next := &g.totals[w.at[i]].next; next.Machine.RetryAfter(next.State, g.at, c.Cost) > 0 {
			return false
		}
	}
	return true
}

// add adds charge i of w.
func (t *total) add(w *waiter, i int, at algo.Instant) {
	if w.sees {
		return
	}
	cost := w.charges[i].Cost
	t.next.State, _ = t.next.Machine.Take(t.next.State, at, cost)
	if t.Cost == 0 || cost < t.least {
		t.least = cost
	}
	t.Cost += cost
}

// refuses reports whether the returned state refuses w, whichever other requests are charged.
func (g *group) refuses(w *waiter) bool {
	for i := range w.charges {
		if k := g.totals[w.at[i]].known; k.Machine != nil && k.Machine.RetryAfter(k.State, g.at, w.wants[i]) > 0 {
			return true
		}
	}
	return false
}

// shrink gives up what leases would take beyond the request, and reports whether that is any.
func (w *waiter) shrink() (shrunk bool) {
	for i := range w.charges {
		if w.charges[i].Cost > w.wants[i] {
			w.charges[i].Cost, shrunk = w.wants[i], true
		}
	}
	return shrunk
}

// answerKnown answers w from the returned state, which does not include a charge of w.
func (g *group) answerKnown(w *waiter) {
	for i := range w.charges {
		w.results[i] = g.totals[w.at[i]].known
	}
	w.answer(false, 0, nil)
}

// answer hands the outcome to the request.
func (w *waiter) answer(taken bool, made int, err error) {
	w.taken, w.made, w.err = taken, w.made+made, err
	if w.state.Swap(answered) != left {
		close(w.done)
	}
}

// charge makes the call for the members of g. It lives until the latest of their deadlines, and no
// member that leaves cancels it.
func (l *Limiter) charge(g *group) (taken bool, calls int, err error) {
	g.charges, g.results = g.charges[:0], g.results[:0]
	for _, t := range g.totals {
		g.charges = append(g.charges, t.Charge)
		g.results = append(g.results, t.known)
	}
	ctx, cancel := g.context()
	defer cancel()
	defer func() {
		if v := recover(); v != nil { // nobody above would
			taken, calls, err = false, 1, fmt.Errorf("%w: panic: %v", ErrUnavailable, v)
		}
	}()
	taken, calls, err = l.ask(ctx, g.at, g.subject, g.charges, g.results)
	if errors.Is(err, ErrItemThrottled) {
		return l.chargeThrottled(ctx, g, err)
	}
	return taken, calls, err
}

// chargeThrottled repeats the throttled call of g. A read that refuses the sum of the charges is the
// answer of the store, by which the next group is formed.
func (l *Limiter) chargeThrottled(ctx context.Context, g *group, throttled error) (taken bool, calls int, err error) {
	a := &attempt{now: g.at, charges: g.charges, results: g.results, err: throttled, calls: 1}
	a.take = func() (bool, error) {
		taken, calls, err := l.ask(ctx, g.at, g.subject, g.charges, g.results)
		a.calls += calls
		return taken, err
	}
	a.refuses = func() bool {
		for i, c := range g.charges {
			if g.results[i].RetryAfter(g.at, c.Cost) > 0 {
				return true
			}
		}
		return false
	}
	taken, err = l.outlast(ctx, a)
	return taken, a.calls, err
}

// context returns the context of the first member with the latest deadline of all.
func (g *group) context() (context.Context, context.CancelFunc) {
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

// finish answers the members. If the store refused their sum, they wait for the next call.
func (l *Limiter) finish(g *group, taken bool, calls int, err error) {
	g.known, g.raced = g.known[:0], false
	if err == nil {
		for i := range g.totals {
			g.totals[i].result = g.results[i]
		}
		g.known = append(g.known, g.totals...)
		l.remember(g, taken)
	} else if l.groups.crowd(g) {
		err = l.crowded(err)
	}
	if busy(err) && !errors.Is(err, ErrItemThrottled) { // of which outlast has taken care
		l.signal(g.at, g.charges, false)
	}
	for _, w := range g.queue {
		w.calls++
	}
	switch {
	case err != nil:
		for i, w := range g.members {
			w.answer(false, ofFirst(i, calls), err)
		}
	case taken:
		g.answerTaken(calls)
	case len(g.members) == 1 && !g.members[0].sees && !g.members[0].shrink(): // what refuses one request is exact
		w := g.members[0]
		for i := range w.charges {
			w.results[i] = g.totals[w.at[i]].result
		}
		w.answer(false, calls, nil)
	default:
		g.raced = !slices.ContainsFunc(g.totals, func(t total) bool { return t.known.Machine == nil })
		for i, w := range g.members {
			w.made += ofFirst(i, calls)
			w.state.CompareAndSwap(sent, waits)
		}
	}
}

// answerTaken shows each member the state after its own charge.
func (g *group) answerTaken(calls int) {
	for i := range g.totals {
		g.totals[i].next = g.totals[i].result
	}
	for i, w := range slices.Backward(g.members) {
		for j, c := range w.charges {
			next := &g.totals[w.at[j]].next
			w.results[j] = algo.Result{Machine: next.Machine, State: next.State, Clamped: i == 0 && next.Clamped}
			if !w.sees {
				next.State = without(next.Machine, next.State, c.Cost)
			}
		}
	}
	for i, w := range g.members {
		if w.sees && !w.look { // the state that it saw decides
			w.made += ofFirst(i, calls)
			w.state.CompareAndSwap(sent, waits)
		} else {
			w.answer(true, ofFirst(i, calls), nil)
		}
	}
}

// without returns s as it was before the last charge, of cost. That is no refund.
func without(m algo.Machine, s algo.State, cost int64) algo.State {
	before := m.Refund(s, s, cost, 0)
	before.Refunds = s.Refunds
	return before
}

// ofFirst returns how many of the calls of a group member i accounts for.
func ofFirst(i, calls int) int {
	if i == 0 {
		return calls
	}
	return 0
}

// crowd reports whether the call of a group was for more than one request, or more waited for it.
func (g *groups) crowd(of *group) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(of.queue) > 1 || len(g.waiting[of.subject]) > 0
}

// remember caches the states that the call of g returned. If the sum does not fit, each state
// counts as the answer to the smallest cost of the members.
func (l *Limiter) remember(g *group, taken bool) {
	for i, t := range g.totals {
		g.charges[i].Cost = t.least
	}
	l.denials.remember(g.at, g.subject, g.charges, g.results, taken)
}
