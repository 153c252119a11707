package algo

import (
	"encoding/binary"
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

func (e Entries) with(i Instant, n int64) Entries {
	return e + Entries(strings.Repeat(string(NewEntries(i)), int(n)))
}

// insert adds the n instants from i on to e and returns the result. None of them may be in e.
func (e Entries) insert(i Instant, n int64) Entries {
	at, added := e.Until(i), make([]Instant, n)
	for j := range added {
		added[j] = i + Instant(j)
	}
	return e[:at*entrySize] + NewEntries(added...) + e.From(at)
}

// without removes n entries at the instant i from e and returns the result. If there are fewer, it returns e.
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
		all = append(all, min(a, b))
		if a <= b {
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

// counted has the number of entries that count at an instant, and the number that have expired. A Log counts at the
// newest entry or later; Slots count at the instant now.
type counted struct {
	live     int64
	expired  int
	requests int64 // Requests of the Log or the Slots
}

// counted returns the number of entries after the instant i, and the number of the other entries, which have
// expired.
func (e Entries) counted(i Instant, requests int64) counted {
	expired := e.Until(i)
	return counted{int64(e.Len() - expired), expired, requests}
}

// maxDebt returns the largest number of entries that a forced charge may leave.
func maxDebt(requests int64) int64 { return 2 * requests }

func (c counted) admits(cost int64) bool { return cost <= c.requests && c.live+cost <= c.requests }

// forceable returns the part of a forced charge of this cost that the largest debt admits.
func (c counted) forceable(cost int64) int64 {
	return max(0, min(cost, maxDebt(c.requests)-c.live))
}

// excess returns the part of a forced charge of this cost that exceeds the largest debt.
func (c counted) excess(cost int64) int64 { return max(0, cost-max(0, maxDebt(c.requests)-c.live)) }

func (c counted) remaining() int64 { return max(0, c.requests-c.live) }

// retryAfter returns the time until enough entries of the state s of m have expired. An entry expires after
// length.
func (c counted) retryAfter(m Machine, s State, now Instant, cost int64, length time.Duration) time.Duration {
	tooMany := c.live + cost - c.requests
	switch {
	case cost > c.requests:
		return Never
	case tooMany <= 0:
		return 0
	}
	last := s.Entries.At(c.expired + int(tooMany) - 1) // the entry whose expiry makes room
	if _, ok := m.(*Slots); ok {
		last = slotTime(last)
	}
	wait := last.Add(length).Sub(now)
	if m.Ahead(s, now) {
		wait = clampedWait(m, s, now, cost, wait)
	}
	return wait
}
