package limiter

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// fallback counts in this process what the store could not be charged in an outage. It is the
// Store of the parts that a request has in an outage. The zero value is not ready; most is how many
// subjects it holds, where a subject with a long log counts as several.
//
// It is no store of another package, because it needs what no other store does: it starts
// from a state that was seen elsewhere, it charges only what it holds already, and it drops
// what the shared store counts as well.
//
// A state stays until nothing of it counts any more, or until the store counts at least as much.
// As long as it stays, every charge that the store admits is charged to it too: so this process
// alone never admits more than the limit, whatever the store forgot or did not get.
type fallback struct {
	most int

	held  atomic.Int64 // subjects; with none, a decision costs nothing more
	until atomic.Int64 // the instant from which nothing held counts, unless more is charged

	mu     sync.Mutex
	table  map[Subject][]fallbackState
	weight int
	swept  algo.Instant
}

// fallbackState is the state of a limit, or of its share.
type fallbackState struct {
	limit *Limit
	state algo.State
}

// fallbackMargin covers what one process does to the order of instants, in a refund.
const fallbackMargin = 50 * time.Millisecond

func newFallback(most int) *fallback {
	return &fallback{most: most, table: map[Subject][]fallbackState{}}
}

// holds reports whether anything is held that counts at now, and else forgets all.
func (l *fallback) holds(now algo.Instant) bool {
	switch {
	case l.held.Load() == 0:
		return false
	case int64(now) < l.until.Load():
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if int64(now) < l.until.Load() {
		return true
	}
	clear(l.table)
	l.weight = 0
	l.recount()
	return false
}

// Take implements Store.
func (l *fallback) Take(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []Result) (bool, error) {
	clear(results)
	return l.take(now, subject, charges, results, func() {})
}

// take is Take, but that it counts at least what results hold once known has filled them, with
// states of the charges' own machines. No charge that the store admits is missed: what was
// answered before known looks is among what it finds, and who is answered later finds the lock taken.
func (l *fallback) take(now algo.Instant, subject Subject, charges []Charge, results []Result, known func()) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.Add(1) // so that holds waits for the lock
	defer l.recount()
	known()
	states, writes := l.table[subject], false
	for i, c := range charges {
		s, _ := heldOf(states, c.Limit).as(c.Limit, now)
		if results[i].Machine != nil {
			s = algo.Merge(c.Limit.machine, s, results[i].State)
		}
		results[i] = Result{Machine: c.Limit.machine, State: s}
		writes = writes || c.Cost > 0
	}
	if !apply(now, charges, results) {
		return false, nil
	}
	if writes {
		if states == nil && !l.room(now) {
			return false, ErrFull
		}
		l.write(subject, states, charges, results)
	}
	return true, nil
}

// raise makes what is counted of limit at least what known returns, if there is room. As in take,
// no charge is missed.
func (l *fallback) raise(now algo.Instant, subject Subject, limit *Limit, known func() (algo.State, bool)) {
	charges, results := []Charge{{Subject: subject, Limit: limit, Cost: 1, Force: true}}, []Result{{Machine: limit.machine}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.Add(1)
	defer l.recount()
	s, ok := known()
	states := l.table[subject]
	if !ok || states == nil && !l.room(now) {
		return
	}
	counted, _ := heldOf(states, limit).as(limit, now)
	results[0].State = algo.Merge(limit.machine, counted, s)
	l.write(subject, states, charges, results)
}

// recount counts the subjects that are held. The caller holds the lock.
func (l *fallback) recount() { l.held.Store(int64(len(l.table))) }

// mirror charges what the store has charged too, of limits that are held, and reports whether
// all of them admit it. A limit that is not held has no Machine in results.
func (l *fallback) mirror(now algo.Instant, subject Subject, charges []Charge, results []Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := l.table[subject]
	if !l.load(now, states, charges, results) {
		return true
	}
	if !apply(now, charges, results) {
		return false
	}
	l.write(subject, states, charges, results)
	return true
}

// look fills results with what is held, and reports whether that is anything.
func (l *fallback) look(now algo.Instant, subject Subject, charges []Charge, results []Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load(now, l.table[subject], charges, results)
}

// load fills results with what is held of charges, and reports whether that is anything. The
// caller holds the lock.
func (l *fallback) load(now algo.Instant, states []fallbackState, charges []Charge, results []Result) (found bool) {
	for i, c := range charges {
		results[i] = Result{}
		if s, ok := heldOf(states, c.Limit).as(c.Limit, now); ok {
			results[i], found = Result{Machine: c.Limit.machine, State: s}, true
		}
	}
	return found
}

// apply makes charges of the results that have a Machine, or none, and reports which.
func apply(now algo.Instant, charges []Charge, results []Result) bool {
	next := make([]algo.State, len(charges))
	for i, c := range charges {
		if results[i].Machine == nil {
			continue
		}
		var ok bool
		if next[i], ok = c.Apply(results[i].Machine, results[i].State, now); !ok {
			return false
		}
	}
	for i := range charges {
		results[i].State = next[i]
	}
	return true
}

// drop forgets what of charges the store counts as well: stored is what it holds of them. All that
// this process admitted MUST be charged to it: no other request is under way. Then what it may
// admit from now on, and what it has admitted, are together no more than the limit.
func (l *fallback) drop(subject Subject, charges []Charge, stored []Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := l.table[subject]
	if states == nil {
		return
	}
	l.weight -= fallbackWeight(states)
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		if s == nil || s.limit != c.Limit || stored[i].Machine == nil || stored[i].Machine.Fingerprint() != c.Limit.fingerprint {
			continue
		}
		if held := stored[i].State; sameUsage(algo.Merge(c.Limit.machine, held, s.state), held) {
			states = slices.DeleteFunc(states, func(s fallbackState) bool { return s.limit.ID == c.Limit.ID }) // with its share
		}
	}
	l.put(subject, states)
}

// sameUsage reports whether two states count the same.
func sameUsage(a, b algo.State) bool {
	a.Refunds = b.Refunds
	return a == b
}

// Refund implements Store.
func (l *fallback) Refund(_ context.Context, subject Subject, charges []Charge, results []Result, elapsed time.Duration) (given int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	states := l.table[subject]
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		if s == nil || s.limit != c.Limit || results[i].Machine != c.Limit.machine {
			continue
		}
		if after := c.Limit.machine.Refund(s.state, results[i].State, c.Cost, elapsed+fallbackMargin); after != s.state {
			s.state = after
			given++
		}
	}
	return given, nil
}

// Inspect implements Store: nobody asks.
func (l *fallback) Inspect(context.Context, Subject) ([]Entry, error) { return nil, nil }

// Reset implements Store.
func (l *fallback) Reset(_ context.Context, subject Subject) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if states, ok := l.table[subject]; ok {
		l.weight -= fallbackWeight(states)
		l.put(subject, nil)
	}
	return nil
}

// write keeps the results of charges that have a Machine. The caller holds the lock.
func (l *fallback) write(subject Subject, states []fallbackState, charges []Charge, results []Result) {
	l.weight -= fallbackWeight(states)
	for i, c := range charges {
		r := results[i]
		if r.Machine == nil {
			continue
		}
		if s := heldOf(states, c.Limit); s != nil {
			*s = fallbackState{c.Limit, r.State}
		} else if c.Cost > 0 {
			states = append(states, fallbackState{c.Limit, r.State})
		}
		l.until.Store(max(l.until.Load(), int64(r.Machine.Idle(r.State))))
	}
	l.put(subject, states)
}

// put replaces the states of subject, whose weight is taken off already. The caller holds the
// lock.
func (l *fallback) put(subject Subject, states []fallbackState) {
	if len(states) == 0 {
		delete(l.table, subject)
	} else {
		l.table[subject] = states
		l.weight += fallbackWeight(states)
	}
	l.recount()
}

// room reports whether there is room for one more subject. If not, at most once a second,
// those that count nothing any more make room. The caller holds the lock.
func (l *fallback) room(now algo.Instant) bool {
	if l.weight < l.most {
		return true
	}
	if age := now.Sub(l.swept); age >= 0 && age < time.Second {
		return false
	}
	l.swept = now
	for subject, states := range l.table {
		if !slices.ContainsFunc(states, func(s fallbackState) bool { return s.limit.machine.Idle(s.state) > now }) {
			l.weight -= fallbackWeight(states)
			delete(l.table, subject)
		}
	}
	return l.weight < l.most
}

// fallbackWeight returns how many subjects the states of one count as; 0 of none.
func fallbackWeight(states []fallbackState) int {
	if len(states) == 0 {
		return 0
	}
	w := (len(states) + 4 - 1) / 4
	for i := range states {
		w += len(states[i].state.Entries) / 512
	}
	return w
}

// heldOf returns what is held of limit, of any version; nil if that is nothing.
func heldOf(states []fallbackState, limit *Limit) *fallbackState {
	for i := range states {
		if s := &states[i]; s.limit.ID == limit.ID && s.limit.isShare == limit.isShare {
			return s
		}
	}
	return nil
}

// as returns the state as limit counts it at now, and whether there is one.
func (s *fallbackState) as(limit *Limit, now algo.Instant) (algo.State, bool) {
	if s == nil {
		return algo.State{}, false
	}
	return converted(s.limit.machine, limit, s.state, now), true
}

// converted returns what a state of the machine from counts, as limit counts it at now.
func converted(from algo.Machine, limit *Limit, s algo.State, now algo.Instant) algo.State {
	if from == limit.machine || from.Fingerprint() == limit.fingerprint {
		return s
	}
	return algo.Convert(from, limit.machine, s, now)
}
