package limiter

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// fallback counts the requests that this process admits while the store fails. It is a Store for the charges of an
// outage, and safe for concurrent use.
//
// A count starts from the state that this process last saw in the store. After the outage, the count
// stays until all of its charges have expired, or until the store counts at least as much. Until then,
// it is also charged with every request that the store admits. Therefore, this process alone never
// admits more than the limit, even if the store loses counts or does not receive charges.
type fallback struct {
	*table
	denials *denials
	until   atomic.Int64 // instant at which all charges so far have expired
	newest  algo.Instant // entry of the slot that f took last; slots of stores have other numbers
	clock   processClock // the instants of requests at f; a wall clock that is set back would refuse all of them
}

// fallbackMargin is added to the elapsed time of a refund, because concurrent requests are not in the order
// of their instants.
const fallbackMargin = 50 * time.Millisecond

func newFallback(d *denials) *fallback {
	return &fallback{table: d.table, denials: d, newest: algo.Instant(algo.SlotNumbers)}
}

// Holds reports whether f holds a charge that has not expired at the instant now. If not, it drops all states.
func (f *fallback) Holds(now algo.Instant) bool {
	switch {
	case f.holding.Load() == 0:
		return false
	case int64(now) < f.until.Load():
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(now) < f.until.Load() {
		return true
	}
	for _, e := range f.entries {
		if e.holds {
			e.held = nil
			f.changed(e)
		}
	}
	return false
}

func (f *fallback) holdsSubject(s Subject) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of(s).holds
}

// Take implements Store.
func (f *fallback) Take(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result) (bool, error) {
	clear(results)
	return f.take(now, subject, charges, results, func() {})
}

// take makes all charges or none, and reports which. First it calls the function seen, which fills results with
// the states that this process last saw in the store. take counts at least as much as these states. The error is
// ErrFull if there is no room for the subject.
//
// take calls seen under the lock, so it misses no concurrent charge of the store. Either the store answered
// such a charge earlier, and the states of seen include it, or the charge waits for the lock in mirror.
func (f *fallback) take(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, seen func()) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding.Add(1) // a number above 0 makes Holds wait for the lock
	defer f.holding.Add(-1)
	seen()
	states, writes := f.of(subject).held, false
	for i, c := range charges {
		s, _ := heldOf(states, c.Limit).as(c.Limit, now)
		if results[i].Machine != nil {
			s = algo.Merge(c.Limit.machine, s, results[i].State)
		}
		results[i] = algo.Result{Machine: c.Limit.machine, State: s}
		writes = writes || c.Cost > 0
	}
	if !f.apply(now, charges, results) {
		return false, nil
	}
	if writes {
		if states == nil && !f.room(now, f.forOutage()) {
			return false, ErrFull
		}
		f.write(subject, states, charges, results)
	}
	return true, nil
}

// mirror repeats, on the limits that f holds, the charges that the store has made. It reports whether all of
// these limits admit the charges. results contains the states of the store, if there are any. mirror replaces them by
// its own states; a limit that f does not hold has no Machine.
func (f *fallback) mirror(now algo.Instant, subject Subject, charges []Charge, results []algo.Result) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	states, stored := f.of(subject).held, slices.Clone(results)
	if !load(now, states, charges, results) {
		return true
	}
	if !f.apply(now, charges, results) {
		return false
	}
	for i, c := range charges {
		results[i].State = algo.Repeat(results[i].Machine, results[i].State, stored[i].State, c.Cost)
	}
	f.write(subject, states, charges, results)
	return true
}

// look fills results with the states that f holds, and reports whether there are any.
func (f *fallback) look(now algo.Instant, subject Subject, charges []Charge, results []algo.Result) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return load(now, f.of(subject).held, charges, results)
}

// load fills results with the states of the charged limits, and reports whether there are any. The store works, so it moves
// share between regions, which f does not see. A limit that regions share thus has the share of all of them here.
func load(now algo.Instant, states []heldState, charges []Charge, results []algo.Result) (found bool) {
	for i, c := range charges {
		results[i] = algo.Result{}
		if s, ok := heldOf(states, c.Limit).as(c.Limit, now); ok {
			results[i], found = algo.Result{Machine: c.Limit.machine, State: algo.WithAll(c.Limit.machine, s, now)}, true
		}
	}
	return found
}

// apply makes the charges on all results that have a Machine, or makes none. It reports whether it made them. The
// caller holds the lock.
func (f *fallback) apply(now algo.Instant, charges []Charge, results []algo.Result) bool {
	for i := range charges {
		if algo.TakesSlots(results[i].Machine) {
			results[i].State.Newest = f.newest // new slots follow this entry
		}
	}
	taken := TakeAll(now, charges, results)
	for i := range charges {
		if algo.TakesSlots(results[i].Machine) {
			f.newest = results[i].State.Newest
		}
	}
	return taken
}

// drop removes the states whose usage the store now counts too. stored contains the states of the store. No
// other request may be in progress: the store then has all charges of this process. After drop, the store alone
// enforces the limit.
func (f *fallback) drop(subject Subject, charges []Charge, stored []algo.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := f.of(subject).held
	if states == nil {
		return
	}
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		if s == nil || !c.Limit.is(s.machine) || stored[i].Machine == nil || !c.Limit.is(stored[i].Machine) {
			continue
		}
		if algo.Covers(c.Limit.machine, stored[i].State, s.state) {
			// also removes the state of this process's share of the limit
			states = slices.DeleteFunc(states, func(s heldState) bool { return s.limit.ID == c.Limit.ID })
		}
	}
	f.put(subject, states)
}

// Settle implements Store.
func (f *fallback) Settle(_ context.Context, now algo.Instant, subject Subject, charges []Charge, results []algo.Result,
	elapsed time.Duration) (s Settled, err error) {
	seen := func(i int) algo.Result { return f.denials.last(now, subject, charges[i].Limit) }
	s.Given = f.settle(now, subject, charges, results, elapsed, s.Excess[:], seen)
	return s, nil
}

// settle corrects earlier charges. results are those that take or mirror returned for them. A charge with Force
// is made at the instant now; any other charge is refunded. settle writes to excess the part of each charge
// that exceeds the max debt. given is the number of limits, without shares, that it refunded, at least in part.
//
// If f does not hold the limit of a charge with Force, the charge starts from the state that the function seen returns.
// If seen is nil, such a charge is dropped. Like take, settle calls seen under the lock. Charges of new subjects are also
// dropped when the room of an outage is half full, because the requests of an outage need the other half.
func (f *fallback) settle(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, elapsed time.Duration, excess []int64,
	seen func(i int) algo.Result) (given int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding.Add(1)
	defer f.holding.Add(-1)
	states := f.of(subject).held
	defer func() { f.put(subject, states) }()
	for i, c := range charges {
		s := heldOf(states, c.Limit)
		switch {
		case c.Force && s == nil && seen != nil && !c.Limit.isLocalShare && (states != nil || f.room(now, f.forOthers())):
			start := heldState{limit: c.Limit, machine: c.Limit.machine}
			if last := seen(i); last.Machine != nil {
				start.machine, start.state = last.Machine, last.State // a conversion would drop a debt
			}
			states = append(states, start)
			s = &states[len(states)-1]
		case s == nil:
			continue
		}
		r := algo.Result{Machine: s.machine, State: s.state}
		over, refunded := r.Settle(now, results[i], c.Cost, c.Force, elapsed+fallbackMargin)
		s.state = r.State
		if c.Force {
			excess[i] = over
			f.until.Store(max(f.until.Load(), int64(r.Machine.Idle(r.State))))
		}
		if refunded && !c.Limit.isLocalShare {
			given++
		}
	}
	return given
}

// Inspect implements Store. Operators inspect the shared store only.
func (f *fallback) Inspect(context.Context, Subject) ([]Entry, error) { return nil, nil }

// Reset implements Store.
func (f *fallback) Reset(_ context.Context, subject Subject) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(subject, nil)
	return nil
}

// write stores the results that have a Machine. The caller holds the lock.
func (f *fallback) write(subject Subject, states []heldState, charges []Charge, results []algo.Result) {
	for i, c := range charges {
		r := results[i]
		if r.Machine == nil {
			continue
		}
		if s := heldOf(states, c.Limit); s != nil {
			*s = heldState{c.Limit, r.Machine, r.State}
		} else if c.Cost > 0 {
			states = append(states, heldState{c.Limit, r.Machine, r.State})
		}
		f.until.Store(max(f.until.Load(), int64(r.Machine.Idle(r.State))))
	}
	f.put(subject, states)
}

// put replaces the states of the subject. The caller holds the lock.
func (f *fallback) put(subject Subject, states []heldState) {
	if len(states) == 0 && !f.of(subject).holds {
		return
	}
	e := f.open(subject)
	e.held = states
	f.changed(e)
}

// heldOf returns the state of a limit under any version of its rules; nil if there is none.
func heldOf(states []heldState, limit *Limit) *heldState {
	for i := range states {
		if s := &states[i]; s.limit.ID == limit.ID && s.limit.isLocalShare == limit.isLocalShare {
			return s
		}
	}
	return nil
}

// as converts the state to the parameters of a limit at the instant now. ok is false if there is no state.
func (s *heldState) as(limit *Limit, now algo.Instant) (state algo.State, ok bool) {
	if s == nil {
		return algo.State{}, false
	}
	return quota.Convert(s.machine, limit.machine, s.state, now), true
}
