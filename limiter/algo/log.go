package algo

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
)

// Entries are instants in ascending order, packed into a string: comparable, and
// immutable without a copy.
type Entries string

const entrySize = 8

// NewEntries packs instants. They MUST be in ascending order.
func NewEntries(instants ...Instant) Entries {
	b := make([]byte, 0, len(instants)*entrySize)
	for _, i := range instants {
		b = binary.BigEndian.AppendUint64(b, uint64(i))
	}
	return Entries(b)
}

// Len returns the number of entries.
func (e Entries) Len() int { return len(e) / entrySize }

// At returns entry i, counting from the oldest.
func (e Entries) At(i int) Instant {
	var b [entrySize]byte
	copy(b[:], e[i*entrySize:])
	return Instant(binary.BigEndian.Uint64(b[:]))
}

// Until returns the number of entries at or before i.
func (e Entries) Until(i Instant) int {
	low, high := 0, e.Len()
	for low < high {
		if middle := (low + high) / 2; e.At(middle) <= i {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// From returns the entries from the i-th on.
func (e Entries) From(i int) Entries { return e[i*entrySize:] }

// with returns e with n more entries at the instant i.
func (e Entries) with(i Instant, n int64) Entries {
	return e + Entries(strings.Repeat(string(NewEntries(i)), int(n)))
}

// insert returns e with n more entries at the instant i, in order.
func (e Entries) insert(i Instant, n int64) Entries {
	at := e.Until(i)
	return e[:at*entrySize].with(i, n) + e.From(at)
}

// without returns e without n of its entries at the instant i. If there are fewer, it returns e.
func (e Entries) without(i Instant, n int64) Entries {
	from, to := e.Until(i-1), e.Until(i)
	if int64(to-from) < n {
		return e
	}
	return e[:from*entrySize] + e.From(from+int(n))
}

// union returns the entries of e and of o. If both contain an instant, the larger number of its entries
// counts.
func (e Entries) union(o Entries) Entries {
	all := make([]Instant, 0, e.Len()+o.Len())
	for e != "" || o != "" {
		a, b := e.first(), o.first()
		if all = append(all, min(a, b)); a <= b {
			e = e.From(1)
		}
		if b <= a {
			o = o.From(1)
		}
	}
	return NewEntries(all...)
}

// first returns the oldest entry, or an instant after all others if there is none.
func (e Entries) first() Instant {
	if e == "" {
		return math.MaxInt64
	}
	return e.At(0)
}

// last returns the newest entry; 0 if there is none.
func (e Entries) last() Instant {
	if e == "" {
		return 0
	}
	return e.At(e.Len() - 1)
}

// Log keeps an entry for each request and counts the entries of the last Length: at most
// Requests in any interval of that length.
//
// A request of cost n at now is allowed if
//
//	#{entries > at-Length} + n <= Requests, at = max(now, newest)
//
// where newest is the instant of the newest entry that was ever appended. An admitted request appends n
// entries with the instant max(now, newest). As in a Window, a clock that is behind is treated as if it
// read the instant of the newest charge. Therefore, such a clock never adds quota, and the log keeps no
// extra entries for it.
type Log struct {
	Length   time.Duration
	Requests int64
}

var _ Machine = (*Log)(nil)

// Live returns the number of entries of s that count at now, and the number of expired entries.
func (l *Log) Live(s State, now Instant) (live int64, expired int) {
	expired = s.Entries.Until(l.at(s, now).Add(-l.Length))
	return int64(s.Entries.Len() - expired), expired
}

// at returns the instant at which the entries of s are counted for a clock that reads now.
func (l *Log) at(s State, now Instant) Instant { return max(now, s.Newest) }

// Trim drops expired entries, which a store can still have. The result depends only on the state, not on
// the time of the call.
func (l *Log) Trim(s State) State {
	s.Entries = s.Entries.From(s.Entries.Until(s.Newest.Add(-l.Length)))
	return s
}

// append returns s with n more entries, trimmed.
func (l *Log) append(s State, now Instant, n int64) State {
	s.Newest = l.at(s, now)
	s.Entries = s.Entries.with(s.Newest, n)
	return l.Trim(s)
}

// Take implements Machine.
func (l *Log) Take(s State, now Instant, cost int64) (State, bool) {
	live, _ := l.Live(s, now)
	if cost > l.Requests || live+cost > l.Requests {
		return s, false
	}
	if cost == 0 {
		return s, true
	}
	return l.append(s, now, cost), true
}

// Force implements Machine.
func (l *Log) Force(s State, now Instant, cost int64) State {
	live, _ := l.Live(s, now)
	if cost = min(cost, l.MaxDebt()-live); cost <= 0 {
		return s
	}
	return l.append(s, now, cost)
}

// Excess implements Machine.
func (l *Log) Excess(s State, now Instant, cost int64) int64 {
	live, _ := l.Live(s, now)
	return max(0, cost-max(0, l.MaxDebt()-live))
}

// MaxDebt returns the number of entries of the largest debt. It is also the length of the longest
// trimmed list.
func (l *Log) MaxDebt() int64 { return 2 * l.Requests }

// RetryAfter implements Machine.
func (l *Log) RetryAfter(s State, now Instant, cost int64) time.Duration {
	if cost > l.Requests {
		return Never
	}
	live, expired := l.Live(s, now)
	tooMany := live + cost - l.Requests
	if tooMany <= 0 {
		return 0
	}
	wait := s.Entries.At(expired + int(tooMany) - 1).Add(l.Length).Sub(now)
	if l.Ahead(s, now) {
		wait = clampedWait(l, s, now, cost, wait)
	}
	return wait
}

// Remaining implements Machine.
func (l *Log) Remaining(s State, now Instant) int64 {
	live, _ := l.Live(s, now)
	return max(0, l.Requests-live)
}

// ResetAfter implements Machine.
func (l *Log) ResetAfter(s State, now Instant) time.Duration {
	if s.Entries == "" {
		return 0
	}
	return max(0, s.Entries.At(s.Entries.Len()-1).Add(l.Length).Sub(now))
}

// Refund implements Machine. It is exact: it removes the entries that were appended.
func (l *Log) Refund(s, charged State, cost int64, _ time.Duration) State {
	s.Entries = s.Entries.without(charged.Newest, cost)
	return s
}

// Ahead implements Machine.
func (l *Log) Ahead(s State, now Instant) bool { return s.Newest > l.MaxHonest(now) }

func (l *Log) newest(s State) int64 { return int64(s.Newest) }

func (l *Log) full(s State, at Instant) State {
	live, _ := l.Live(s, s.Newest)
	return l.owing(max(l.Requests, live), at)
}

// MaxHonest returns the newest instant that is not Ahead of now.
func (l *Log) MaxHonest(now Instant) Instant { return now.Add(MaxSkew) }

// Capacity implements Machine.
func (l *Log) Capacity() int64 { return l.Requests }

// Horizon implements Machine.
func (l *Log) Horizon() time.Duration { return l.Length + MaxSkew }

// Idle implements Machine.
func (l *Log) Idle(s State) Instant { return s.Newest.Add(l.Length) }

// Fingerprint implements Machine.
func (l *Log) Fingerprint() string { return fmt.Sprintf("%s/%s/%d", kindLog, l.Length, l.Requests) }

// Used implements Machine.
func (l *Log) Used(s State, now Instant) int64 {
	live, _ := l.Live(s, now)
	return live
}

func (l *Log) owing(n int64, now Instant) State {
	if n == 0 {
		return State{}
	}
	return State{Newest: now, Entries: Entries("").with(now, min(n, 2*l.Requests))}
}
