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
// where a slot is the instant at which it was taken. For example, a limit of 2 with a Length of a minute
// has slots of 12:00:00 and 12:00:40. A request at 12:00:50 is refused. The request of 12:00:40 ends at
// 12:00:55, and its slot is released. The next request at 12:00:55 is allowed.
//
// A holder keeps its slot for at least Length by its own clock. Another clock can be ahead by a skew, and
// then the slot expires that much earlier. Therefore, at most Requests requests run at a time if each
// runs for at most Length minus the skew.
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
	return s.Entries.counted(now.Add(-l.Length), l.Requests)
}

// Take implements Machine. The Newest of the result is the instant of the new slots, for Refund.
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
	s.Newest, s.Entries = now, s.Entries.insert(now, n)
	return s
}

// Force implements Machine.
func (l *Slots) Force(s State, now Instant, cost int64) State {
	if cost = l.counted(&s, now).forceable(cost); cost == 0 {
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

// Refund implements Machine. It releases the slots that the charge took. If they are already removed, it does
// nothing.
func (l *Slots) Refund(s, charged State, cost int64, _ time.Duration) State {
	s.Entries = s.Entries.without(charged.Newest, cost)
	return s
}

// Ahead implements Machine.
func (l *Slots) Ahead(s State, now Instant) bool { return s.Entries.last() > now.Add(MaxSkew) }

func (l *Slots) newest(s State) int64 { return int64(s.Entries.last()) }

func (l *Slots) full(s State, at Instant) State {
	live, _ := l.Live(s, s.Entries.last())
	return l.owing(max(l.Requests, live), at)
}

// Capacity implements Machine.
func (l *Slots) Capacity() int64 { return l.Requests }

// Horizon implements Machine.
func (l *Slots) Horizon() time.Duration { return l.Length + MaxSkew }

// Idle implements Machine.
func (l *Slots) Idle(s State) Instant {
	if s.Entries == "" {
		return 0
	}
	return s.Entries.last().Add(l.Length)
}

// Fingerprint implements Machine.
func (l *Slots) Fingerprint() string { return fmt.Sprintf("%s/%s/%d", kindSlots, l.Length, l.Requests) }

// Used implements Machine.
func (l *Slots) Used(s State, now Instant) int64 { return l.counted(&s, now).live }

func (l *Slots) owing(n int64, now Instant) State {
	return State{Entries: Entries("").insert(now, min(n, l.MaxDebt()))}
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
