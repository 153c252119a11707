package simulate

import (
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// attempt is one conditional write of a charge. limiter/dynamostore sends a condition expression;
// this model tests the item's state instead.
type attempt struct {
	limiter.Charge
	machine algo.Machine
	now     algo.Instant
	seen    algo.State // state of the item that the environment assumes
	exact   bool       // true if an attempt of this decision has read the state in seen
	busy    bool       // true if the write expects a busy bucket, or an existing item of slots
	padded  bool       // item.padded when the environment read the state in seen
	replace bool       // true if the write replaces the whole state, provided that the item still has the state in seen
	next    algo.State
	same    bool // true if the charge does not change the state in seen; valid if exact
	trim    int  // number of entries to remove from a log, provided that its list still has the generation in seen
}

// test returns the item's state after the write, and whether the write's condition holds.
func (a *attempt) test(it *item) (algo.State, bool) {
	held := it.state
	if a.replace {
		return a.next, held == a.seen && it.padded == a.padded
	}
	if a.trim > 0 {
		next := held
		if next.Refunds != a.seen.Refunds {
			return held, false
		}
		next.Entries, next.Refunds = held.Entries.From(a.trim), held.Refunds+1
		return next, true
	}
	switch m := a.machine.(type) {
	case *algo.Bucket:
		return a.bucket(m, held)
	case *algo.Window:
		return a.window(m, held)
	case *algo.Log:
		return a.log(m, held, it.exists)
	case *algo.Slots:
		return a.slots(m, held, it.exists)
	}
	return held, false
}

func (a *attempt) bucket(b *algo.Bucket, held algo.State) (algo.State, bool) {
	increment := b.Increment(a.Cost)
	if !a.busy {
		return algo.State{TAT: a.now.Add(increment), Refunds: held.Refunds}, held.TAT <= a.now
	}
	latest := b.Latest(a.now, a.Cost)
	if a.Force {
		latest = b.MaxDebt(a.now).Add(-increment)
	}
	return algo.State{TAT: held.TAT.Add(increment), Refunds: held.Refunds}, held.TAT > a.now && held.TAT <= latest
}

func (a *attempt) window(w *algo.Window, held algo.State) (algo.State, bool) {
	index := max(w.Index(a.now), a.seen.Window)
	if held.Window > index || index > w.Index(a.now) && held.Window != index {
		return held, false
	}
	var c counts
	switch held.Window {
	case index:
		c = counts{held.Count, held.Previous, true, held.Previous > 0}
	case index - 1:
		c = counts{previous: held.Count, hasPrevious: true}
	}
	var ok bool
	switch {
	case a.Force:
		ok = c.current <= w.MaxDebt()-a.Cost
	case w.Sliding:
		ok = a.slidingRoom(w, index, c)
	default:
		ok = c.current <= w.Requests-a.Cost
	}
	return algo.State{Window: index, Count: c.current + a.Cost, Previous: c.previous}, ok
}

// counts are the counts of the current and the previous window, as far as the item has them.
type counts struct {
	current, previous       int64
	hasCurrent, hasPrevious bool
}

// ladder is the number of steps that slidingRoom tries if it does not know the count of the
// previous window. Each step is a fraction of the limit, which it assumes as upper bound of that
// count.
const ladder = 8

// slidingRoom reports whether the condition of a sliding window holds: the window has room for the
// charge.
func (a *attempt) slidingRoom(w *algo.Window, index int64, c counts) bool {
	if room := w.Room(index, a.now, a.seen.Previous, a.Cost); a.seen.Window == index && room >= 0 {
		return c.previous <= a.seen.Previous && c.current <= room
	}
	if !c.hasCurrent && c.previous <= w.PreviousRoom(index, a.now, a.Cost) {
		return true
	}
	if a.exact {
		before := w.At(a.seen, a.now).Previous
		return c.previous <= before && c.current <= w.Room(index, a.now, before, a.Cost)
	}
	for rung := range int64(ladder + 1) {
		most := w.Requests * rung / ladder
		room := w.Room(index, a.now, most, a.Cost)
		if room < 0 {
			return false
		}
		if c.hasCurrent && c.current <= room && (rung == 0 && !c.hasPrevious || rung > 0 && c.hasPrevious && c.previous <= most) {
			return true
		}
	}
	return false
}

// log returns the state of a sliding log after the charge, and whether the write's condition holds.
// In the state, Refunds is the generation of the list.
func (a *attempt) log(l *algo.Log, held algo.State, exists bool) (algo.State, bool) {
	_, expired := l.Live(a.seen, a.now)
	room := l.Requests - a.Cost
	if a.Force {
		room = l.MaxDebt() - a.Cost
	}
	has, same := int64(held.Entries.Len()), held.Refunds == a.seen.Refunds
	ok := !exists || has <= room || same && has <= min(room+int64(expired), l.MaxDebt()-a.Cost)
	switch now, known := logIndex(a.now), logIndex(a.seen.Newest); {
	case known <= now:
		ok = ok && logIndex(held.Newest) <= now
	case known == now+1:
		ok = ok && logIndex(held.Newest) == known
	default:
		ok = ok && same && has == int64(a.seen.Entries.Len())
	}
	if !ok {
		return held, false
	}
	next := held
	next.Newest = max(a.now, held.Newest)
	for range a.Cost {
		next.Entries += algo.NewEntries(next.Newest)
	}
	return next, true
}

// slots returns the slots after the charge, and whether the write's condition holds: a slot is
// free, and the item exists if the write expects it. Only a write whose decision has read the item
// removes expired slots.
func (a *attempt) slots(l *algo.Slots, held algo.State, exists bool) (algo.State, bool) {
	if a.busy != exists || !a.exact && int64(held.Entries.Len())+a.Cost > l.Requests {
		return held, false
	}
	return l.Take(held, a.now, a.Cost)
}

// logIndex is equal to logIndex in limiter/dynamostore.
func logIndex(at algo.Instant) int64 { return int64(at) / int64(algo.MaxSkew/2) }

// learn stores the item's state in the attempt, and reports whether the limit allows the charge in
// that state.
func (a *attempt) learn(found reply) (passes bool) {
	a.seen, a.exact, a.busy, a.padded = found.state, true, found.state.TAT > a.now, found.padded
	a.next, passes = a.Apply(a.machine, found.state, a.now)
	a.replace, a.same = passes && a.full(), a.next == a.seen
	switch a.machine.(type) {
	case *algo.Log:
		a.next.Refunds++
	case *algo.Slots:
		a.busy = found.exists
	}
	return passes
}

// full reports whether no write can add the charge: the state would exceed the max debt, or a log's
// list its maximum length.
func (a *attempt) full() bool {
	switch m := a.machine.(type) {
	case *algo.Bucket:
		return a.Force && (a.Cost > 2*m.Burst || max(a.seen.TAT, a.now).Add(m.Increment(a.Cost)) > m.MaxDebt(a.now))
	case *algo.Window:
		return a.Force && m.At(a.seen, a.now).Count > m.MaxDebt()-a.Cost
	case *algo.Log:
		live, _ := m.Live(a.seen, a.now)
		return a.Force && live > m.MaxDebt()-a.Cost || int64(a.seen.Entries.Len()) > m.MaxDebt()-a.Cost
	}
	return false
}
