// Package fallback counts the requests of an outage.
package fallback

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/chain"
	"github.com/weir-limits/weir/limiter/internal/clock"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/quota"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Counts are what this process admitted while the store failed. They are safe for concurrent use.
//
// A count starts from the state that this process last saw in the store. After the outage, the count
// stays until all of its charges have expired, or until the store counts at least as much. Until then,
// it is also charged with every request that the store admits. Therefore, this process alone never
// admits more than the limit, even if the store loses counts or does not receive charges.
type Counts struct {
	*table.Table
	until  atomic.Int64  // instant at which all charges so far have expired
	newest algo.Instant  // entry of the slot that f took last; slots of stores have other numbers
	clock  clock.Process // the instants of requests at f; a wall clock that is set back would refuse all of them
}

// margin is added to the elapsed time of a refund, because concurrent requests are not in the order
// of their instants.
const margin = 50 * time.Millisecond

// New returns an empty Counts that keeps its counts in t.
func New(t *table.Table) *Counts {
	return &Counts{Table: t, newest: algo.Instant(algo.SlotNumbers)}
}

// Holds reports whether f holds a charge that has not expired at the instant now. If not, it drops all states.
func (f *Counts) Holds(now algo.Instant) bool {
	switch {
	case f.Holding.Load() == 0:
		return false
	case int64(now) < f.until.Load():
		return true
	}
	f.Lock()
	defer f.Unlock()
	if int64(now) < f.until.Load() {
		return true
	}
	f.DropCounts()
	return false
}

// At returns r at the instant that it has for f. A time without a monotonic reading is not from Limiter.Now, and counts as
// it is.
func (f *Counts) At(r *chain.Request) *chain.Request {
	if r.At == r.At.Round(0) { //nolint:staticcheck // Equal ignores monotonic readings
		return r
	}
	own := *r
	own.Now = algo.InstantOf(f.clock.When(time.Now(), r.At))
	return &own
}

// HoldsSubject reports whether f holds counts of the subject.
func (f *Counts) HoldsSubject(s domain.Subject) bool {
	f.Lock()
	defer f.Unlock()
	return f.Of(s).Holds()
}

// Take makes all charges or none, and reports which. First it calls the function seen, which fills results with
// the states that this process last saw in the store. Take counts at least as much as these states. The error is
// domain.ErrFull if there is no room for the subject.
//
// Take calls seen under the lock, so it misses no concurrent charge of the store. Either the store answered
// such a charge earlier, and the states of seen include it, or the charge waits for the lock in Mirror.
func (f *Counts) Take(now algo.Instant, subject domain.Subject, charges []domain.Charge, results []algo.Result, seen func()) (bool, error) {
	f.Lock()
	defer f.Unlock()
	f.Holding.Add(1) // a number above 0 makes Holds wait for the lock
	defer f.Holding.Add(-1)
	seen()
	e, writes := f.Of(subject), false
	states := e.Counts
	if e.Holds() {
		e.Used = now // also if f refuses the charges
	}
	for i, c := range charges {
		s, _ := as(countOf(states, c.Limit), c.Limit, now)
		if results[i].Machine != nil {
			s = algo.Merge(c.Limit.Machine(), s, results[i].State)
		}
		results[i] = algo.Result{Machine: c.Limit.Machine(), State: s}
		writes = writes || c.Cost > 0
	}
	if !f.apply(now, charges, results) {
		return false, nil
	}
	if writes {
		if len(states) == 0 && !f.Room(now, f.ForOutage()) && !f.Evict(now, f.ForOutage()) {
			return false, domain.ErrFull
		}
		f.write(now, subject, states, charges, results)
	}
	return true, nil
}

// Mirror repeats, on the limits that f holds, the charges that the store has made. It reports whether all of
// these limits admit the charges. results contains the states of the store, if there are any. Mirror replaces them by
// its own states; a limit that f does not hold has no Machine.
func (f *Counts) Mirror(now algo.Instant, subject domain.Subject, charges []domain.Charge, results []algo.Result) bool {
	f.Lock()
	defer f.Unlock()
	states, stored := f.Of(subject).Counts, slices.Clone(results)
	if !load(now, states, charges, results) {
		return true
	}
	if !f.apply(now, charges, results) {
		return false
	}
	for i, c := range charges {
		results[i].State = algo.Repeat(results[i].Machine, results[i].State, stored[i].State, c.Cost)
	}
	f.write(now, subject, states, charges, results)
	return true
}

// Look fills results with the states that f holds, and reports whether there are any.
func (f *Counts) Look(now algo.Instant, subject domain.Subject, charges []domain.Charge, results []algo.Result) bool {
	f.Lock()
	defer f.Unlock()
	return load(now, f.Of(subject).Counts, charges, results)
}

// load fills results with the states of the charged limits, and reports whether there are any. The store works, so it moves
// share between regions, which f does not see. A limit that regions share thus has the share of all of them here.
func load(now algo.Instant, states []table.OutageCount, charges []domain.Charge, results []algo.Result) (found bool) {
	for i, c := range charges {
		results[i] = algo.Result{}
		if s, ok := as(countOf(states, c.Limit), c.Limit, now); ok {
			results[i], found = algo.Result{Machine: c.Limit.Machine(), State: algo.WithAll(c.Limit.Machine(), s, now)}, true
		}
	}
	return found
}

// apply makes the charges on all results that have a Machine, or makes none. It reports whether it made them. The
// caller holds the lock.
func (f *Counts) apply(now algo.Instant, charges []domain.Charge, results []algo.Result) bool {
	for i := range charges {
		if algo.TakesSlots(results[i].Machine) {
			results[i].State.Newest = f.newest // new slots follow this entry
		}
	}
	taken := domain.TakeAll(now, charges, results)
	for i := range charges {
		if algo.TakesSlots(results[i].Machine) {
			f.newest = results[i].State.Newest
		}
	}
	return taken
}

// Drop removes the states whose usage the store now counts too. stored contains the states of the store. No
// other request may be in progress: the store then has all charges of this process. After drop, the store alone
// enforces the limit.
func (f *Counts) Drop(subject domain.Subject, charges []domain.Charge, stored []algo.Result) {
	f.Lock()
	defer f.Unlock()
	states := f.Of(subject).Counts
	if states == nil {
		return
	}
	for i, c := range charges {
		s := countOf(states, c.Limit)
		if s == nil || !c.Limit.Is(s.Machine) || stored[i].Machine == nil || !c.Limit.Is(stored[i].Machine) {
			continue
		}
		if algo.Covers(c.Limit.Machine(), stored[i].State, s.State) {
			// also removes the state of this process's share of the limit
			states = slices.DeleteFunc(states, func(s table.OutageCount) bool { return s.Limit.ID == c.Limit.ID })
		}
	}
	f.put(0, subject, states)
}

// Settle makes a correction of an earlier charge. charged is what Take or Mirror returned for it. A correction with Force
// is a charge at the instant now; any other one is a refund. excess is the part of a charge that exceeds the max debt. given
// reports whether a refund returned something.
//
// If f does not hold the limit of a charge, the count starts from the state that the function seen returns. If has is true,
// that state already has the charge. If seen is nil, such a charge is dropped. Like Take, Settle calls seen under the lock.
// Charges of new subjects are also dropped when the room of an outage is half full, because the requests of an outage need
// the other half.
func (f *Counts) Settle(now algo.Instant, c domain.Charge, charged algo.Result, elapsed time.Duration,
	seen func() (last algo.Result, has bool)) (excess int64, given bool) {
	f.Lock()
	defer f.Unlock()
	f.Holding.Add(1)
	defer f.Holding.Add(-1)
	states, has, used := f.Of(c.Subject).Counts, false, algo.Instant(0)
	s := countOf(states, c.Limit)
	if s == nil {
		if !c.Force || seen == nil || c.Limit.IsLocalShare() || len(states) == 0 && !f.Room(now, f.ForOthers()) {
			return 0, false
		}
		start := table.OutageCount{Limit: c.Limit, Machine: c.Limit.Machine()}
		used = now
		var last algo.Result
		last, has = seen()
		if last.Machine != nil {
			start.Machine, start.State = last.Machine, last.State // a conversion would drop a debt
		}
		states = append(states, start)
		s = &states[len(states)-1]
	}
	r := algo.Result{Machine: s.Machine, State: s.State}
	if !has {
		excess, given = r.Settle(now, charged, c.Cost, c.Force, elapsed+margin)
		s.State = r.State
	}
	if c.Force {
		f.until.Store(max(f.until.Load(), int64(r.Machine.Idle(r.State))))
	}
	f.put(used, c.Subject, states)
	return excess, given
}

// Reset removes the counts of a subject.
func (f *Counts) Reset(subject domain.Subject) {
	f.Lock()
	defer f.Unlock()
	f.put(0, subject, nil)
}

// write stores the results that have a Machine. The caller holds the lock.
func (f *Counts) write(now algo.Instant, subject domain.Subject, states []table.OutageCount, charges []domain.Charge,
	results []algo.Result) {
	for i, c := range charges {
		r := results[i]
		if r.Machine == nil {
			continue
		}
		if s := countOf(states, c.Limit); s != nil {
			*s = table.OutageCount{Limit: c.Limit, Machine: r.Machine, State: r.State}
		} else if c.Cost > 0 {
			states = append(states, table.OutageCount{Limit: c.Limit, Machine: r.Machine, State: r.State})
		}
		f.until.Store(max(f.until.Load(), int64(r.Machine.Idle(r.State))))
	}
	f.put(now, subject, states)
}

// put replaces the states of the subject, which it used at the instant now; 0 if that is no use. The caller holds the lock.
func (f *Counts) put(now algo.Instant, subject domain.Subject, states []table.OutageCount) {
	if len(states) == 0 && !f.Of(subject).Holds() {
		return
	}
	e := f.Open(subject)
	e.Counts, e.Used = states, max(e.Used, now)
	f.Changed(e)
}

// countOf returns the state of a limit under any version of its rules; nil if there is none.
func countOf(states []table.OutageCount, limit *domain.Limit) *table.OutageCount {
	for i := range states {
		if s := &states[i]; s.Limit.ID == limit.ID && s.Limit.IsLocalShare() == limit.IsLocalShare() {
			return s
		}
	}
	return nil
}

// as converts the state to the parameters of a limit at the instant now. ok is false if there is no state.
func as(s *table.OutageCount, limit *domain.Limit, now algo.Instant) (state algo.State, ok bool) {
	if s == nil {
		return algo.State{}, false
	}
	return quota.Convert(s.Machine, limit.Machine(), s.State, now), true
}
