package algo

import (
	"fmt"
	"time"
)

// Log keeps an entry for each request. It admits at most Requests in any interval of length Length.
//
// A request of cost n at the instant now is allowed if
//
//	#{entries > at-Length} + n <= Requests, at = max(now, newest)
//
// where newest is the instant of the newest entry that was ever appended. An admitted request appends n entries with
// the instant at. A clock that is behind therefore decides as if it showed the instant of the newest entry. Such a
// clock never adds quota.
type Log struct {
	Length   time.Duration
	Requests int64
}

var _ Machine = (*Log)(nil)

// Live returns the number of entries of s that count at the instant now, and the number of expired entries.
func (l *Log) Live(s State, now Instant) (live int64, expired int) {
	c := l.counted(&s, now)
	return c.live, c.expired
}

// counted has a pointer parameter because copying a State costs as much as the search.
func (l *Log) counted(s *State, now Instant) counted {
	return s.Entries.counted(l.at(s, now).Add(-l.Length), l.Requests)
}

// at returns the instant at which the entries of s are counted for a clock that reads now.
func (l *Log) at(s *State, now Instant) Instant { return max(now, s.Newest) }

// Trim drops expired entries, which a store can still have. The result depends only on the state, not on
// the time of the call.
func (l *Log) Trim(s State) State {
	s.Entries = s.Entries.From(s.Entries.Until(s.Newest.Add(-l.Length)))
	return s
}

func (l *Log) append(s State, now Instant, n int64) State {
	s.Newest = l.at(&s, now)
	s.Entries = s.Entries.with(s.Newest, n)
	return l.Trim(s)
}

// Take implements Machine.
func (l *Log) Take(s State, now Instant, cost int64) (State, bool) {
	if !l.counted(&s, now).admits(cost) {
		return s, false
	}
	if cost == 0 {
		return s, true
	}
	return l.append(s, now, cost), true
}

// Force implements Machine.
func (l *Log) Force(s State, now Instant, cost int64) State {
	cost = l.counted(&s, now).forceable(cost)
	if cost == 0 {
		return s
	}
	return l.append(s, now, cost)
}

// Excess implements Machine.
func (l *Log) Excess(s State, now Instant, cost int64) int64 { return l.counted(&s, now).excess(cost) }

// MaxDebt returns the number of entries of the largest debt. It is also the length of the longest
// trimmed list.
func (l *Log) MaxDebt() int64 { return maxDebt(l.Requests) }

// RetryAfter implements Machine.
func (l *Log) RetryAfter(s State, now Instant, cost int64) time.Duration {
	return l.counted(&s, now).retryAfter(l, s, now, cost, l.Length)
}

// Remaining implements Machine.
func (l *Log) Remaining(s State, now Instant) int64 { return l.counted(&s, now).remaining() }

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

// MaxEntries implements Machine.
func (l *Log) MaxEntries() int64 { return l.MaxDebt() }

// Horizon implements Machine.
func (l *Log) Horizon() time.Duration { return l.Length + MaxSkew }

// Idle implements Machine.
func (l *Log) Idle(s State) Instant { return s.Newest.Add(l.Length) }

// Fingerprint implements Machine.
func (l *Log) Fingerprint() string { return fmt.Sprintf("%s/%s/%d", kindLog, l.Length, l.Requests) }

// Used implements Machine.
func (l *Log) Used(s State, now Instant) int64 { return l.counted(&s, now).live }

func (l *Log) owing(n int64, now Instant) State {
	return State{Newest: now, Entries: Entries("").with(now, min(n, l.MaxDebt()))}
}
