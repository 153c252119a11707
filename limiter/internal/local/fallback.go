package local

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Fallback counts the requests that this process admits while the store fails. It is safe for concurrent
// use.
//
// A count starts from the state that this process last saw in the store. After the outage, the count
// stays until all of its charges have expired, or until the store counts at least as much. Until then,
// it is also charged with every request that the store admits. Therefore, this process alone never
// admits more than the limit, even if the store loses counts or does not receive charges.
type Fallback struct {
	most int // highest number of subjects

	subjects atomic.Int64 // number of subjects; if it is 0, Holds takes no lock
	until    atomic.Int64 // instant at which all charges so far have expired

	mu     sync.RWMutex
	table  map[string][]heldState
	weight int
	swept  algo.Instant
	newest algo.Instant // entry of the slot that f took last; slots of stores have other numbers
}

// heldState is the state of a limit, or of the share of a limit.
type heldState struct {
	limit Limit
	state algo.State
}

// fallbackMargin is added to the elapsed time of a refund, because concurrent requests are not in the order
// of their instants.
const fallbackMargin = 50 * time.Millisecond

// NewFallback returns a Fallback for the given number of subjects. A subject with many limits or a long
// log counts as several subjects.
func NewFallback(subjects int) *Fallback {
	return &Fallback{most: subjects, table: map[string][]heldState{}, newest: algo.Instant(algo.SlotNumbers)}
}

// Holds reports whether f holds a charge that has not expired at the instant now. If not, it drops all states.
func (f *Fallback) Holds(now algo.Instant) bool {
	switch {
	case f.subjects.Load() == 0:
		return false
	case int64(now) < f.until.Load():
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(now) < f.until.Load() {
		return true
	}
	clear(f.table)
	f.weight = 0
	f.recount()
	return false
}

// HoldsSubject reports whether f holds a state of the subject.
func (f *Fallback) HoldsSubject(subject []byte) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.table[string(subject)] != nil
}

// Take makes all charges or none, and reports which. First it calls the function seen, which fills results with
// the states that this process last saw in the store. Take counts at least as much as these states. room is
// false if there is no room for the subject.
//
// Take calls seen under the lock, so it misses no concurrent charge of the store. Either the store answered
// such a charge earlier, and the states of seen include it, or the charge waits for the lock in Mirror.
func (f *Fallback) Take(now algo.Instant, subject string, charges []Charge, results []algo.Result, seen func()) (taken, room bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subjects.Add(1) // a number above 0 makes Holds wait for the lock
	defer f.recount()
	seen()
	states, writes := f.table[subject], false
	for i, c := range charges {
		s, _ := heldOf(states, c.Limit).as(c.Limit, now)
		if results[i].Machine != nil {
			s = algo.Merge(c.Machine, s, results[i].State)
		}
		results[i] = algo.Result{Machine: c.Machine, State: s}
		writes = writes || c.Cost > 0
	}
	if !f.apply(now, charges, results) {
		return false, true
	}
	if writes {
		if states == nil && !f.room(now, f.most) {
			return false, false
		}
		f.write(subject, states, charges, results)
	}
	return true, true
}

// Raise raises the state of a limit to at least the state that the function seen returns, if there is room.
// Like Take, it calls seen under the lock.
func (f *Fallback) Raise(now algo.Instant, subject string, limit Limit, seen func() (algo.State, bool)) {
	charges, results := []Charge{{Limit: limit, Cost: 1, Force: true}}, []algo.Result{{Machine: limit.Machine}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subjects.Add(1)
	defer f.recount()
	s, ok := seen()
	states := f.table[subject]
	if !ok || states == nil && !f.room(now, f.most) {
		return
	}
	counted, _ := heldOf(states, limit).as(limit, now)
	results[0].State = algo.Merge(limit.Machine, counted, s)
	f.write(subject, states, charges, results)
}

func (f *Fallback) recount() { f.subjects.Store(int64(len(f.table))) }

// Mirror repeats, on the limits that f holds, the charges that the store has made. It reports whether all of
// these limits admit the charges. results contains the states of the store, if there are any. Mirror replaces them by
// its own states; a limit that f does not hold has no Machine.
func (f *Fallback) Mirror(now algo.Instant, subject string, charges []Charge, results []algo.Result) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	states, stored := f.table[subject], slices.Clone(results)
	if !load(now, states, charges, results) {
		return true
	}
	if !f.apply(now, charges, results) {
		return false
	}
	for i, c := range charges {
		if l, ok := results[i].Machine.(*algo.Slots); ok && c.Cost > 0 && stored[i].State.Newest > 0 {
			results[i].State = l.Repeat(results[i].State, stored[i].State, c.Cost)
		}
	}
	f.write(subject, states, charges, results)
	return true
}

// Look fills results with the states that f holds, and reports whether there are any.
func (f *Fallback) Look(now algo.Instant, subject string, charges []Charge, results []algo.Result) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return load(now, f.table[subject], charges, results)
}

// load fills results with the states of the charged limits, and reports whether there are any.
func load(now algo.Instant, states []heldState, charges []Charge, results []algo.Result) (found bool) {
	for i, c := range charges {
		results[i] = algo.Result{}
		if s, ok := heldOf(states, c.Limit).as(c.Limit, now); ok {
			results[i], found = algo.Result{Machine: c.Machine, State: s}, true
		}
	}
	return found
}

// apply makes the charges on all results that have a Machine, or makes none. It reports whether it made them. The
// caller holds the lock.
func (f *Fallback) apply(now algo.Instant, charges []Charge, results []algo.Result) bool {
	next := make([]algo.State, len(charges))
	for i, c := range charges {
		if results[i].Machine == nil {
			continue
		}
		s := results[i].State
		_, slots := results[i].Machine.(*algo.Slots)
		if slots {
			s.Newest = f.newest // new slots follow this entry
		}
		var ok bool
		if next[i], ok = take(results[i].Machine, s, now, c.Cost, c.Force); !ok {
			return false
		}
		if slots {
			f.newest = next[i].Newest
		}
	}
	for i := range charges {
		results[i].State = next[i]
	}
	return true
}

// Drop removes the states whose usage the store now counts too. stored contains the states of the store. No
// other request may be in progress: the store then has all charges of this process. After Drop, the store alone
// enforces the limit.
func (f *Fallback) Drop(subject string, charges []Charge, stored []algo.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := f.table[subject]
	if states == nil {
		return
	}
	f.weight -= heldWeight(states)
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		if s == nil || s.limit != c.Limit || stored[i].Machine == nil || !equal(stored[i].Machine, c.Machine) {
			continue
		}
		if in := stored[i].State; sameUsage(algo.Merge(c.Machine, in, s.state), in) {
			states = slices.DeleteFunc(states, func(s heldState) bool { return s.limit.ID == c.ID }) // also removes the state of this process's share of the limit
		}
	}
	f.put(subject, states)
}

// sameUsage reports whether two states count the same usage.
func sameUsage(a, b algo.State) bool {
	a.Refunds = b.Refunds
	return a == b
}

// Settle corrects earlier charges. results are those that Take or Mirror returned for them. A charge with Force
// is made at the instant now; any other charge is refunded. Settle writes to excess the part of each charge
// that exceeds the max debt. given is the number of limits, without shares, that it refunded, at least in part.
//
// If f does not hold the limit of a charge with Force, the charge starts from the state that the function seen returns.
// If seen is nil, such a charge is dropped. Like Take, Settle calls seen under the lock. Charges of new subjects are also
// dropped when f is half full, because the requests of an outage need the other half.
func (f *Fallback) Settle(now algo.Instant, subject string, charges []Charge, results []algo.Result, elapsed time.Duration, excess []int64, seen func(i int) algo.Result) (given int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subjects.Add(1) // put counts the subjects again
	states := f.table[subject]
	f.weight -= heldWeight(states) // the corrections change the lengths of logs, and so the weight
	defer func() { f.put(subject, states) }()
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		switch {
		case c.Force && s == nil && seen != nil && !c.Share && (states != nil || f.room(now, (f.most+1)/2)):
			start := heldState{limit: c.Limit}
			if last := seen(i); last.Machine != nil {
				start.limit.Machine, start.state = last.Machine, last.State // a conversion would drop a debt
			}
			states = append(states, start)
			s = &states[len(states)-1]
			fallthrough
		case c.Force && s != nil:
			m := s.limit.Machine
			excess[i] = m.Excess(s.state, now, c.Cost)
			s.state = m.Force(s.state, now, c.Cost)
			f.until.Store(max(f.until.Load(), int64(m.Idle(s.state))))
		case !c.Force && s != nil && algo.Refundable(s.limit.Machine, results[i].Machine):
			after := s.limit.Machine.Refund(s.state, results[i].State, c.Cost, elapsed+fallbackMargin)
			if after != s.state && !c.Share {
				given++
			}
			s.state = after
		}
	}
	return given
}

// Reset removes the subject.
func (f *Fallback) Reset(subject string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if states, ok := f.table[subject]; ok {
		f.weight -= heldWeight(states)
		f.put(subject, nil)
	}
}

// write stores the results that have a Machine. The caller holds the lock.
func (f *Fallback) write(subject string, states []heldState, charges []Charge, results []algo.Result) {
	f.weight -= heldWeight(states)
	for i, c := range charges {
		r := results[i]
		if r.Machine == nil {
			continue
		}
		if s := heldOf(states, c.Limit); s != nil {
			*s = heldState{c.Limit, r.State}
		} else if c.Cost > 0 {
			states = append(states, heldState{c.Limit, r.State})
		}
		f.until.Store(max(f.until.Load(), int64(r.Machine.Idle(r.State))))
	}
	f.put(subject, states)
}

// put replaces the states of the subject. The caller holds the lock and has subtracted the weight of the old
// states.
func (f *Fallback) put(subject string, states []heldState) {
	if len(states) == 0 {
		delete(f.table, subject)
	} else {
		f.table[subject] = states
		f.weight += heldWeight(states)
	}
	f.recount()
}

// room reports whether fewer than most subjects are held. If not, it removes the subjects whose charges have all
// expired, at most once a second. The caller holds the lock.
func (f *Fallback) room(now algo.Instant, most int) bool {
	if f.weight < most {
		return true
	}
	if age := now.Sub(f.swept); age >= 0 && age < time.Second {
		return false
	}
	f.swept = now
	for subject, states := range f.table {
		if !slices.ContainsFunc(states, func(s heldState) bool { return s.limit.Machine.Idle(s.state) > now }) {
			f.weight -= heldWeight(states)
			delete(f.table, subject)
		}
	}
	return f.weight < most
}

// heldWeight returns the number of subjects that a subject with these states counts as; 0 without states.
func heldWeight(states []heldState) int {
	w := (len(states) + subjectLimits - 1) / subjectLimits
	for i := range states {
		w += len(states[i].state.Entries) / subjectLog
	}
	return w
}

// heldOf returns the state of a limit under any version of its rules; nil if there is none.
func heldOf(states []heldState, limit Limit) *heldState {
	for i := range states {
		if s := &states[i]; s.limit.ID == limit.ID && s.limit.Share == limit.Share {
			return s
		}
	}
	return nil
}

// as converts the state to the parameters of a limit at the instant now. ok is false if there is no state.
func (s *heldState) as(limit Limit, now algo.Instant) (state algo.State, ok bool) {
	if s == nil {
		return algo.State{}, false
	}
	return Convert(s.limit.Machine, limit.Machine, s.state, now), true
}
