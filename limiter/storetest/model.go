package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Model is the sequential specification of a Store: it answers operations one after another. It is not
// safe for concurrent use.
type Model struct {
	// Margin is the time that the store adds to the elapsed time of a refund.
	Margin time.Duration

	held  map[limiter.Subject]map[limiter.ID]limiter.Held
	slots map[slot]struct{} // all slots that were ever taken
}

// slot identifies a slot.
type slot struct {
	subject limiter.Subject
	limit   limiter.ID
	entry   algo.Instant
}

// Take implements limiter.Store.Take.
func (m *Model) Take(now algo.Instant, subject limiter.Subject, charges []limiter.Charge) (bool, []algo.Result) {
	limits := m.limits(subject)
	results := make([]algo.Result, len(charges))
	next := make([]limiter.Held, len(charges))
	for i, c := range charges {
		_, known := limits[c.Limit.ID]
		held, changed := m.current(subject, c.Limit, now)
		if (known || changed) && c.Cost > 0 {
			m.keep(subject, c.Limit.ID, held)
		}
		results[i], next[i] = held.Result, held
	}
	if !limiter.TakeAll(now, charges, results) {
		for i := range results { // a store whose states differ from these has charged something
			results[i] = next[i].Result
		}
		return false, results
	}
	for i, c := range charges {
		next[i].State = results[i].State
		if c.Cost > 0 {
			m.keep(subject, c.Limit.ID, next[i])
		}
	}
	return true, results
}

// Number gives the slots of the charges the numbers that a store gave them in the states seen. It returns false if
// the store gave a new slot the number of an earlier slot: the holder of the earlier slot could then release both.
func (m *Model) Number(subject limiter.Subject, charges []limiter.Charge, seen []algo.State) bool {
	if m.slots == nil {
		m.slots = map[slot]struct{}{}
	}
	for i, c := range charges {
		held := m.limits(subject)[c.Limit.ID]
		if _, ok := held.Machine.(*algo.Slots); !ok || c.Cost == 0 || algo.SlotTimes(held.State.Entries) != algo.SlotTimes(seen[i].Entries) {
			continue
		}
		held.State.Entries = seen[i].Entries
		m.limits(subject)[c.Limit.ID] = held
		if c.Force { // the max debt can cut the charge, and no request releases its slots
			continue
		}
		for j := range c.Cost {
			taken := slot{subject, c.Limit.ID, seen[i].Newest - algo.Instant(j)}
			if _, used := m.slots[taken]; used {
				return false
			}
			m.slots[taken] = struct{}{}
		}
	}
	return true
}

// keep stores h without the field Clamped, which a store does not keep. After a conversion to another kind of state, the
// numbers of slots begin again.
func (m *Model) keep(subject limiter.Subject, id limiter.ID, h limiter.Held) {
	h.Clamped = false
	m.limits(subject)[id] = h
	if _, ok := h.Machine.(*algo.Slots); !ok {
		maps.DeleteFunc(m.slots, func(s slot, _ struct{}) bool { return s.subject == subject && s.limit == id })
	}
}

// current returns the state that decides a charge on l at the instant now; see [limiter.Held.Current].
func (m *Model) current(subject limiter.Subject, l *limiter.Limit, now algo.Instant) (limiter.Held, bool) {
	return m.limits(subject)[l.ID].Current(l, now)
}

// Settle implements limiter.Store.Settle.
func (m *Model) Settle(now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (settled limiter.Settled) {
	limits := m.limits(subject)
	for i, c := range charges {
		held, ok := limits[c.Limit.ID]
		if c.Cost == 0 || !ok && !c.Force {
			continue
		}
		if c.Force {
			held, _ = m.current(subject, c.Limit, now)
		}
		var given bool
		settled.Excess[i], given = held.Settle(now, results[i], c.Cost, c.Force, elapsed+m.Margin)
		if given {
			settled.Given++
		}
		m.keep(subject, c.Limit.ID, held)
	}
	return settled
}

// release releases the slots of a settlement and makes no other correction.
func (m *Model) release(subject limiter.Subject, charges []limiter.Charge, results []algo.Result) {
	for i, c := range charges {
		if _, slots := results[i].Machine.(*algo.Slots); slots && !c.Force {
			m.Settle(0, subject, charges[i:i+1], results[i:i+1], 0)
		}
	}
}

// Inspect implements limiter.Store.Inspect.
func (m *Model) Inspect(subject limiter.Subject) []limiter.Entry {
	var entries []limiter.Entry
	for id, held := range m.limits(subject) {
		entries = append(entries, limiter.Entry{ID: id, Held: held})
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries
}

// Debit implements limiter.Shares.Debit.
func (m *Model) Debit(now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64) int64 {
	giving, ok := m.limits(subject)[limit.ID].Giving(limit, now)
	if !ok {
		return 0
	}
	next, moved := limit.Machine().(*algo.Shared).Debit(giving.State, index, now, lack)
	giving.State = next
	if moved > 0 {
		m.keep(subject, limit.ID, giving)
	}
	return moved
}

// Credit implements limiter.Shares.Credit.
func (m *Model) Credit(subject limiter.Subject, limit *limiter.Limit, index, moved int64) bool {
	held, known := m.limits(subject)[limit.ID]
	if known && held.Machine.Fingerprint() != limit.Fingerprint() {
		return false
	}
	next, ok := limit.Machine().(*algo.Shared).Credit(held.State, index, moved)
	held.State = next
	if !known {
		held.Version = limit.Version
	}
	held.Machine = limit.Machine()
	if ok {
		m.keep(subject, limit.ID, held)
	}
	return ok
}

// Reset implements limiter.Store.Reset. It keeps the IDs of settlements, and the share that moved.
func (m *Model) Reset(subject limiter.Subject) {
	for _, e := range m.Inspect(subject) {
		if !hasMoved(e) {
			delete(m.held[subject], e.ID)
			continue
		}
		e.State.Count, e.State.Previous, e.Skew = 0, 0, algo.Skew{}
		m.held[subject][e.ID] = e.Held
	}
	maps.DeleteFunc(m.slots, func(s slot, _ struct{}) bool { return s.subject == subject })
}

// hasMoved reports whether share of a limit has moved in a window that its state counts.
func hasMoved(e limiter.Entry) bool {
	_, shared := e.Machine.(*algo.Shared)
	return shared && (e.State.Moved() != 0 || e.State.MovedBefore() != 0)
}

func (m *Model) limits(subject limiter.Subject) map[limiter.ID]limiter.Held {
	if m.held == nil {
		m.held = map[limiter.Subject]map[limiter.ID]limiter.Held{}
	}
	if m.held[subject] == nil {
		m.held[subject] = map[limiter.ID]limiter.Held{}
	}
	return m.held[subject]
}
