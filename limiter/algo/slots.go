package algo

import (
	"fmt"
	"time"
)

// Slots limits concurrency: at most Requests slots are taken at a time. A request takes slots when it
// begins, and a refund releases them when it ends. If the holder of a slot dies, the slot expires after
// Length.
//
// A request of n slots at the instant now is allowed if
//
//	#{slots > now-Length} + n <= Requests
//
// where a slot is the instant at which it was taken, rounded up to a millisecond. For example, a limit of 2
// with a Length of a minute has slots of 12:00:00 and 12:00:40. A request at 12:00:50 is refused. The request
// of 12:00:40 ends at 12:00:55, and its slot is released. The next request at 12:00:55 is allowed.
//
// A holder keeps its slot for at least Length by its own clock. Another clock can be ahead by a skew, and
// then the slot expires that much earlier. Therefore, at most Requests requests run at a time if each
// runs for at most Length minus the skew.
//
// The entry of a slot is its millisecond plus a number of nanoseconds, which distinguishes the slots of a
// millisecond. Each slot gets the number after the number of the previous slot, even if the previous slot is already
// released. Therefore, a release that arrives twice does not release the slot of another request. The numbers of a
// store are below SlotNumbers. They begin again after SlotNumbers slots, and when the store deletes the state. The
// fallback of a process has the numbers from SlotNumbers on. So none of its slots is taken for one of a store.
//
// A charge removes expired slots only if it needs their room. Thus a store can add a slot without reading
// the state.
type Slots struct {
	Length   time.Duration
	Requests int64
}

var _ Machine = (*Slots)(nil)

// Live returns the number of slots of s that are taken at the instant now, and the number of expired slots.
func (l *Slots) Live(s State, now Instant) (live int64, expired int) {
	c := l.counted(&s, now)
	return c.live, c.expired
}

// counted has a pointer parameter because copying a State costs as much as the search.
func (l *Slots) counted(s *State, now Instant) counted {
	return s.Entries.counted(LastSlot(now.Add(-l.Length)), l.Requests)
}

// SlotNumbers is the number of different entries that the slots of a store can have in one millisecond. The slots of
// a fallback can have as many other entries.
const SlotNumbers = int64(time.Millisecond) / 2

// LastSlot returns the largest entry that a slot taken at the instant i or earlier can have. It rounds i down to a
// full millisecond.
func LastSlot(i Instant) Instant {
	if i < 0 {
		return -1
	}
	return slotTime(i).Add(time.Millisecond) - 1
}

// SlotStart returns the instant from which a slot taken at the instant i counts: the next full millisecond, or i.
func SlotStart(i Instant) Instant { return LastSlot(i-1) + 1 }

// slotTime returns the instant from which the slot of an entry counts.
func slotTime(entry Instant) Instant { return entry - Instant(slotNumber(entry)) }

func slotNumber(entry Instant) int64 { return int64(entry) % int64(time.Millisecond) }

// SlotTimes returns the entries of slots without their numbers: the instants from which the slots count.
func SlotTimes(slots Entries) Entries {
	times := make([]Instant, slots.Len())
	for i := range times {
		times[i] = slotTime(slots.At(i))
	}
	return NewEntries(times...)
}

// newSlots returns the first of n consecutive entries for new slots. They have numbers of a store or of a fallback, as
// s.Newest has. The first slot of a state takes its number from the instant now. Therefore, states of several stores
// rarely contain the same entry.
func newSlots(s *State, now Instant, n int64) Instant {
	start, number := SlotStart(now), slotNumber(now)%SlotNumbers
	lowest := slotNumber(s.Newest) / SlotNumbers * SlotNumbers
	if s.Newest > 0 {
		number = slotNumber(s.Newest) + 1
	}
	for {
		if number+n > lowest+SlotNumbers {
			number = lowest
		}
		first := start.Add(time.Duration(number))
		before, until := s.Entries.Until(first-1), s.Entries.Until(first+Instant(n)-1)
		if until <= before {
			return first
		}
		number = slotNumber(s.Entries.At(until-1)) + 1 // numbers repeat after SlotNumbers slots, so another slot can have this number
	}
}

// Take implements Machine. The Newest of the result is the entry of the last new slot. The other new slots have
// the entries before it.
func (l *Slots) Take(s State, now Instant, cost int64) (State, bool) {
	if !l.counted(&s, now).admits(cost) {
		return s, false
	}
	if cost == 0 {
		return s, true
	}
	return l.add(s, now, cost, l.Requests), true
}

// add adds n slots to s and returns the result. If the result would hold more slots than the number room, add
// removes the expired slots.
func (l *Slots) add(s State, now Instant, n, room int64) State {
	if _, expired := l.Live(s, now); int64(s.Entries.Len())+n > room {
		s.Entries = s.Entries.From(expired)
	}
	first := newSlots(&s, now, n)
	s.Newest, s.Entries = first+Instant(n)-1, s.Entries.insert(first, n)
	return s
}

// Force implements Machine.
func (l *Slots) Force(s State, now Instant, cost int64) State {
	cost = l.counted(&s, now).forceable(cost)
	if cost == 0 {
		return s
	}
	return l.add(s, now, cost, l.MaxDebt())
}

// Excess implements Machine.
func (l *Slots) Excess(s State, now Instant, cost int64) int64 {
	return l.counted(&s, now).excess(cost)
}

// MaxDebt returns the largest number of slots that a forced charge may leave.
func (l *Slots) MaxDebt() int64 { return maxDebt(l.Requests) }

// RetryAfter implements Machine. It returns the time until enough slots have expired. A release usually
// makes room earlier.
func (l *Slots) RetryAfter(s State, now Instant, cost int64) time.Duration {
	return l.counted(&s, now).retryAfter(l, s, now, cost, l.Length)
}

// Remaining implements Machine.
func (l *Slots) Remaining(s State, now Instant) int64 { return l.counted(&s, now).remaining() }

// ResetAfter implements Machine.
func (l *Slots) ResetAfter(s State, now Instant) time.Duration {
	return max(0, l.Idle(s).Sub(now))
}

// Refund implements Machine. It releases the last slots that the charge took, as many as the cost. It ignores
// slots that are already removed.
func (l *Slots) Refund(s, charged State, cost int64, _ time.Duration) State {
	from, to := s.Entries.Until(charged.Newest-Instant(cost)), s.Entries.Until(charged.Newest)
	s.Entries = s.Entries[:from*entrySize] + s.Entries.From(to)
	return s
}

// Repeat makes the slots of a charge equal in two states of m. s is the state after the charge. stored is the state of a
// store after the same charge. Repeat replaces the newest slots of s, which the charge took, by the slots that it
// took in stored. Therefore, Merge counts each slot once, and a refund in the store releases it. If m takes no slots,
// Repeat returns s.
func Repeat(m Machine, s, stored State, cost int64) State {
	l, ok := m.(*Slots)
	if !ok || stored.Newest == 0 || cost == 0 {
		return s
	}
	same := Entries("").insert(stored.Newest-Instant(cost)+1, cost)
	return State{Newest: stored.Newest, Entries: l.Refund(s, s, cost, 0).Entries.union(same)}
}

// Ahead implements Machine.
func (l *Slots) Ahead(s State, now Instant) bool {
	return slotTime(s.Entries.last()) > now.Add(MaxSkew)
}

func (l *Slots) newest(s State) int64 { return int64(slotTime(s.Entries.last())) }

func (l *Slots) full(s State, at Instant) State {
	live, _ := l.Live(s, slotTime(s.Entries.last()))
	return l.owing(max(l.Requests, live), at)
}

// Capacity implements Machine.
func (l *Slots) Capacity() int64 { return l.Requests }

// MaxEntries implements Machine.
func (l *Slots) MaxEntries() int64 { return l.MaxDebt() }

// Horizon implements Machine.
func (l *Slots) Horizon() time.Duration { return l.Length + MaxSkew }

// Idle implements Machine.
func (l *Slots) Idle(s State) Instant {
	if s.Entries == "" {
		return 0
	}
	return slotTime(s.Entries.last()).Add(l.Length)
}

// Fingerprint implements Machine.
func (l *Slots) Fingerprint() string { return fmt.Sprintf("%s/%s/%d", kindSlots, l.Length, l.Requests) }

// Used implements Machine.
func (l *Slots) Used(s State, now Instant) int64 { return l.counted(&s, now).live }

func (l *Slots) owing(n int64, now Instant) State {
	n = min(n, l.MaxDebt())
	if n == 0 {
		return State{}
	}
	return l.add(State{}, now, n, n)
}

// convert removes the slots that have expired under the old parameters, and keeps the others.
func (l *Slots) convert(old *Slots, s State, now Instant) State {
	_, expired := old.Live(s, now)
	s.Entries = s.Entries.From(expired)
	return s
}

// Refundable reports whether a state with the machine held can contain a charge that was made with the machine
// charged. The machines must be equal, unless both are Slots. Slots stay taken when the parameters of their
// limit change.
func Refundable(held, charged Machine) bool {
	if held == nil || charged == nil || held == charged {
		return held == charged && held != nil
	}
	_, slots := held.(*Slots)
	if _, also := charged.(*Slots); slots && also {
		return true
	}
	return held.Fingerprint() == charged.Fingerprint()
}
