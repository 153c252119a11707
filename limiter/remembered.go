package limiter

import (
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// memory is what an environment remembers of subjects: the states it saw last. It
// refuses a flood without a store call, and tells a store which branch of its write
// to guess. It never admits.
//
// It is bounded: two generations of at most half the subjects each, where a subject
// with a long log counts as several. A subject in use moves to the recent generation;
// when that is full it becomes the older one, and what the older one held is forgotten.
type memory struct {
	trust time.Duration // how long a remembered state may refuse
	half  int           // subjects a generation

	mu            sync.Mutex
	recent, older map[Subject][]memo
	weight        int // of the recent ones, in subjects
}

// subjectWeight is how many bytes of log weigh as much as a subject.
const subjectWeight = 512

// memo is the state of one limit as of the instant at which it was seen. A new
// version of the rules has new Limits, so its decisions find nothing remembered.
type memo struct {
	limit  *Limit
	result Result
	seen   algo.Instant
}

func newMemory(subjects int, trust time.Duration) *memory {
	return &memory{trust: trust, half: max(1, subjects/2), recent: map[Subject][]memo{}}
}

// recall fills results with what is remembered of the charges of subject, and
// reports whether that refuses them at now. If it does, only results that are
// recent enough to be trusted remain.
func (m *memory) recall(now algo.Instant, subject Subject, charges []Charge, results []Result) (refuses bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memos, ok := m.recent[subject]
	if !ok {
		memos = m.older[subject]
	}
	var stale [MaxCharges]bool
	for i, c := range charges {
		for _, memo := range memos {
			if memo.limit != c.Limit {
				continue
			}
			results[i] = memo.result
			age := now.Sub(memo.seen)
			if stale[i] = age > m.trust || -age > m.trust; !stale[i] {
				refuses = refuses || !c.Spend && memo.result.Machine.RetryAfter(memo.result.State, now, c.Cost) > 0
			}
		}
	}
	for i := range results {
		if refuses && stale[i] {
			results[i] = Result{}
		}
	}
	return refuses
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

// remember keeps results as seen at now.
func (m *memory) remember(now algo.Instant, subject Subject, charges []Charge, results []Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memos, ok := m.recent[subject]
	if ok {
		m.weight -= weight(memos)
	} else {
		memos = m.older[subject]
	}
	known := len(memos)
	for i, c := range charges {
		memos = keep(memos, memo{c.Limit, results[i], now})
	}
	m.weight += weight(memos)
	if m.weight > m.half && len(m.recent) > 1 {
		m.older, m.recent, m.weight, ok = m.recent, make(map[Subject][]memo, len(m.recent)), weight(memos), false
	}
	if !ok || len(memos) != known {
		m.recent[subject] = memos
	}
}

// weight returns how many subjects the memos of one count as.
func weight(memos []memo) int {
	w := 1
	for i := range memos {
		w += len(memos[i].result.State.Entries) / subjectWeight
	}
	return w
}

// keep replaces the memo of the same limit, of any version, or adds one.
func keep(memos []memo, m memo) []memo {
	m.result.Mended = false // that was told
	for i := range memos {
		if memos[i].limit.ID == m.limit.ID {
			memos[i] = m
			return memos
		}
	}
	return append(memos, m)
}
