package limiter

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// memory is the denial cache of an environment: the states it saw last. It
// refuses a flood without a store call, and hints to a store which branch of its write
// to guess. It never admits.
//
// Its backOff bounds what a state costs that foresees room which other environments have taken.
//
// It is bounded: two generations of at most half the subjects each, where a subject
// with many limits or a long log counts as several. A subject in use moves to the recent generation;
// when that is full it becomes the older one, and what the older one held is forgotten.
type memory struct {
	trust time.Duration   // how long a remembered state may refuse
	half  int             // subjects a generation
	intN  func(n int) int // chooses one of n at random

	mu            sync.Mutex
	recent, older map[Subject][]memo
	weight        int // of the recent ones, in subjects
}

// A subject weighs as one of so many limits, without logs: less than a kilobyte. Those of more limits,
// and of logs of so many bytes, count as several.
const (
	subjectLimits = 4
	subjectWeight = 512
)

// memo is the state of one limit as of the instant at which it was seen. A new
// version of the rules has new Limits, so its decisions find nothing remembered.
type memo struct {
	limit  *Limit
	result algo.Result
	seen   algo.Instant
	backOff
}

func newMemory(subjects int, trust time.Duration, intN func(int) int) *memory {
	return &memory{trust: trust, half: max(1, subjects/2), intN: intN, recent: map[Subject][]memo{}}
}

// recall fills results with what is remembered of the items of subject, and
// reports whether that refuses them at now. If it does, only results that are
// recent enough to be trusted remain.
func (m *memory) recall(now algo.Instant, subject Subject, items []item, results []algo.Result) (refuses bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memos := m.of(subject)
	var stale [MaxCharges]bool
	for i := range items {
		it := &items[i]
		it.hold = 0
		memo := find(memos, it.Limit)
		if memo == nil {
			continue
		}
		results[i] = memo.result
		if it.Cost > 0 && !it.Force {
			it.hold = memo.hold(now, memo, it.Cost, m.trust)
		}
		age := now.Sub(memo.seen)
		if stale[i] = it.hold == 0 && (age > m.trust || -age > m.trust); !stale[i] {
			full := it.hold > 0 || !it.Force && memo.result.Machine.RetryAfter(memo.result.State, now, it.Cost) > 0
			if full {
				memo.of(it.Cost).early++
				refuses = true
			}
		}
	}
	for i := range results {
		if refuses && stale[i] {
			results[i] = algo.Result{}
		}
	}
	return refuses
}

// of returns what is remembered of subject.
func (m *memory) of(subject Subject) []memo {
	if memos, ok := m.recent[subject]; ok {
		return memos
	}
	return m.older[subject]
}

// find returns the memo of limit; nil if there is none.
func find(memos []memo, limit *Limit) *memo {
	for i := range memos {
		if memos[i].limit == limit {
			return &memos[i]
		}
	}
	return nil
}

// forget drops what is remembered of subject.
func (m *memory) forget(subject Subject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if memos, ok := m.recent[subject]; ok {
		m.weight -= weight(memos)
		delete(m.recent, subject)
	}
	delete(m.older, subject)
}

// distrust keeps what is remembered of subject, for an outage, and refuses nobody by it.
func (m *memory) distrust(subject Subject) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memos := m.of(subject)
	for i := range memos {
		memos[i] = memo{limit: memos[i].limit, result: memos[i].result} // seen long ago
	}
}

// remember keeps results as seen at now, and whether the store took the charges.
func (m *memory) remember(now algo.Instant, subject Subject, charges []Charge, results []algo.Result, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memos, ok := m.recent[subject]
	if ok {
		m.weight -= weight(memos)
	} else {
		memos = m.older[subject]
	}
	size := len(memos)
	for i, c := range charges {
		next := memo{limit: c.Limit, result: results[i], seen: now}
		known := false // that it is refused, but not when the store was asked
		if before := find(memos, c.Limit); before != nil {
			next.backOff = before.backOff
			known = before.result.Machine.RetryAfter(before.result.State, now, c.Cost) > 0
		}
		switch {
		case c.Force || c.Cost == 0 || m.trust <= 0:
		case taken:
			next.admitted(now, c.Cost, m.trust)
		case !known && next.result.Machine.RetryAfter(next.result.State, now, c.Cost) > 0:
			next.refused(now, c.Cost, m.trust, m.intN)
		}
		memos = keep(memos, next)
	}
	m.weight += weight(memos)
	if m.weight > m.half && len(m.recent) > 1 {
		m.older, m.recent, m.weight, ok = m.recent, make(map[Subject][]memo, len(m.recent)), weight(memos), false
	}
	if !ok || len(memos) != size {
		m.recent[subject] = memos
	}
}

// weight returns how many subjects the memos of one count as.
func weight(memos []memo) int {
	w := max(1, (len(memos)+subjectLimits-1)/subjectLimits)
	for i := range memos {
		w += len(memos[i].result.State.Entries) / subjectWeight
	}
	return w
}

// keep replaces the memo of the same limit, of any version, or adds one.
func keep(memos []memo, m memo) []memo {
	m.result.Clamped = false // that was told
	for i := range memos {
		if memos[i].limit.ID == m.limit.ID {
			memos[i] = m
			return memos
		}
	}
	return append(memos, m)
}
