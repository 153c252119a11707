package memstore

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// DefaultSubjects is how many subjects a Store holds unless Options say otherwise.
const DefaultSubjects = 1_000_000

// Options of a Store. The zero value is ready for use.
type Options struct {
	// Subjects is the most that are held at once; 0 means DefaultSubjects. It is divided
	// evenly, and at least one each, among parts of the store, to which subjects are assigned by hash. In a part
	// that is full, subjects at full quota make room; if there are none, Take of a new
	// subject fails with limiter.ErrFull.
	Subjects int
}

// Store is a limiter.Store in memory. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	shards [shards]shard
}

var (
	_ limiter.Store = (*Store)(nil)
	_ limiter.Local = (*Store)(nil)
)

const shards = 64

// refundMargin covers what one process does to the order of instants: a goroutine
// that read the clock and was not run for a while.
const refundMargin = 50 * time.Millisecond

// New returns an empty Store.
func New(o Options) *Store {
	if o.Subjects <= 0 {
		o.Subjects = DefaultSubjects
	}
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].capacity = max(1, o.Subjects/shards)
		s.shards[i].subjects = map[limiter.Subject][]slot{}
		s.shards[i].due = math.MaxInt64
	}
	return s
}

// Local implements limiter.Local.
func (s *Store) Local() {}

func (s *Store) shard(subject limiter.Subject) *shard {
	return &s.shards[maphash.Comparable(s.seed, subject)%shards]
}

// Take implements limiter.Store.
func (s *Store) Take(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result) (bool, error) {
	sh := s.shard(subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := sh.subjects[subject]
	allowed := true
	for i, c := range charges {
		held := settle(slots, c, now)
		next, ok := c.Apply(held.Machine, held.State, now)
		results[i] = limiter.Result{Machine: held.Machine, State: next}
		allowed = allowed && ok
	}
	if !allowed {
		for i, c := range charges {
			results[i].State = settle(slots, c, now).State
		}
		return false, nil
	}
	grown := len(slots)
	for i, c := range charges {
		if c.Cost == 0 {
			continue
		}
		if at := find(slots, c.Limit.ID); at != nil {
			at.held.State = results[i].State
		} else {
			slots = append(slots, slot{c.Limit.ID, limiter.Held{Result: results[i], Version: c.Limit.Version}})
		}
	}
	if grown == len(slots) {
		return true, nil
	}
	if grown == 0 && !sh.room(now) {
		return false, limiter.ErrFull
	}
	sh.subjects[subject] = slots
	sh.due = min(sh.due, idle(slots, now))
	return true, nil
}

// Refund implements limiter.Store.
func (s *Store) Refund(_ context.Context, subject limiter.Subject, charges []limiter.Charge, results []limiter.Result, elapsed time.Duration) error {
	sh := s.shard(subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := sh.subjects[subject]
	for i, c := range charges {
		at := find(slots, c.Limit.ID)
		if at == nil || at.held.Machine.Fingerprint() != results[i].Machine.Fingerprint() {
			continue
		}
		at.held.State = at.held.Machine.Refund(at.held.State, results[i].State, c.Cost, elapsed+refundMargin)
	}
	return nil
}

// Inspect implements limiter.Store.
func (s *Store) Inspect(_ context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	sh := s.shard(subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var entries []limiter.Entry
	for _, slot := range sh.subjects[subject] {
		entries = append(entries, limiter.Entry{ID: slot.id, Held: slot.held})
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// Reset implements limiter.Store.
func (s *Store) Reset(_ context.Context, subject limiter.Subject) error {
	sh := s.shard(subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.subjects, subject)
	return nil
}

// shard is a part of the subjects under one lock.
type shard struct {
	mu       sync.Mutex
	subjects map[limiter.Subject][]slot
	capacity int
	// due is when the next subject reaches full quota: before it, a sweep of a full shard
	// would find nothing. swept is when it was last swept.
	due, swept algo.Instant
}

// slot is one limit of a subject.
type slot struct {
	id   limiter.ID
	held limiter.Held
}

func find(slots []slot, id limiter.ID) *slot {
	for i := range slots {
		if slots[i].id == id {
			return &slots[i]
		}
	}
	return nil
}

// settle returns how a charge's limit counts at now, and writes down what had to
// change for that, unless the charge only looks.
func settle(slots []slot, c limiter.Charge, now algo.Instant) limiter.Held {
	var held limiter.Held
	at := find(slots, c.Limit.ID)
	if at != nil {
		held = at.held
	}
	held, _ = held.Settle(c.Limit, now)
	if at != nil && c.Cost > 0 {
		at.held = held
	}
	return held
}

// sweepPause is the least time between two sweeps of a shard: a flood of new subjects
// must not buy one each.
const sweepPause = time.Second

// room reports whether the shard can take one more subject, after removing those
// at full quota if it is full.
func (sh *shard) room(now algo.Instant) bool {
	if len(sh.subjects) < sh.capacity {
		return true
	}
	if pause := now.Sub(sh.swept); now < sh.due || pause >= 0 && pause < sweepPause {
		return false
	}
	sh.swept, sh.due = now, math.MaxInt64
	for subject, slots := range sh.subjects {
		if at := idle(slots, now); at > now {
			sh.due = min(sh.due, at)
		} else {
			delete(sh.subjects, subject)
		}
	}
	return len(sh.subjects) < sh.capacity
}

// idle returns when all limits of a subject are at full quota, if nothing more is
// charged; now if they are.
func idle(slots []slot, now algo.Instant) algo.Instant {
	at := now
	for i := range slots {
		h := &slots[i].held
		at = max(at, now.Add(h.Machine.ResetAfter(h.State, now)))
	}
	return at
}
