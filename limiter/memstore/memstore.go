package memstore

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/evict"
)

// DefaultSubjects is the default of Options.Subjects.
const DefaultSubjects = 1_000_000

// Options are the options of a Store. The zero value is ready for use.
type Options struct {
	// Subjects bounds the number of subjects with one limit each; 0 means DefaultSubjects. A subject
	// counts once for each of its limits. A sliding_log, a sliding_window of up to algo.MaxExact requests or a
	// concurrent limit counts once more for every eight entries that it holds, because they take that much memory.
	//
	// The bound is divided evenly among the shards of the store, at least one subject each. A
	// subject belongs to a shard by its hash. A full shard removes subjects at full quota, and then evicts, of those
	// below half of all their limits, the one that was unused for the longest time (Decision.Evicted). If there is none,
	// Take of a new subject, or of a new limit, fails with limiter.ErrFull, and logs of known subjects may grow to twice
	// the bound.
	Subjects int
}

// Store is a limiter.Store in memory. It is safe for concurrent use.
type Store struct {
	seed    maphash.Seed
	shards  [shards]shard
	evicted evict.Count
}

var (
	_ limiter.Local  = (*Store)(nil)
	_ limiter.Shares = (*Store)(nil)
)

const shards = 64

// refundMargin is added to the age of a refunded charge. It covers a goroutine that waited for the
// processor after it had read the clock.
const refundMargin = 50 * time.Millisecond

// New returns an empty Store. If an option is out of range, the error names the option.
func New(o Options) (*Store, error) {
	if o.Subjects < 0 {
		return nil, fmt.Errorf("memstore: %w", &algo.FieldError{Field: "Options.Subjects", Got: o.Subjects,
			Want: fmt.Sprintf("at least 1; 0 means %d", DefaultSubjects)})
	}
	o.Subjects = cmp.Or(o.Subjects, DefaultSubjects)
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.entries, sh.capacity, sh.evicted = map[limiter.Subject]*entry{}, max(1, o.Subjects/shards), &s.evicted
	}
	return s, nil
}

// Evicted implements limiter.Local.
func (s *Store) Evicted() int64 { return s.evicted.Take() }

// lock locks the shard that holds subject.
func (s *Store) lock(subject limiter.Subject) *shard {
	sh := &s.shards[maphash.Comparable(s.seed, subject)%shards]
	sh.mu.Lock()
	return sh
}

// Take implements limiter.Store.
func (s *Store) Take(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool,
	error) {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	e, grows, known := sh.entries[subject], 0, true
	if e != nil {
		e.used = now
	}
	for i := range charges {
		c := &charges[i]
		at := sh.current(e, c, now, &results[i])
		known = known && (at != nil || c.Cost == 0)
	}
	if !limiter.TakeAll(now, charges, results) {
		return false, nil
	}
	for i := range charges {
		if c := &charges[i]; c.Cost > 0 {
			grows += growth(e, c.Limit, &results[i].State)
		}
	}
	if grows > 0 && !sh.room(now, subject, grows, known) {
		return false, limiter.ErrFull
	}
	for i := range charges {
		if c := &charges[i]; c.Cost > 0 {
			e = sh.put(e, subject, c.Limit, results[i].State, now)
		}
	}
	return true, nil
}

// Settle implements limiter.Store.
func (s *Store) Settle(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result,
	elapsed time.Duration) (settled limiter.Settled, err error) {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	e, grows := sh.entries[subject], 0
	for i := range charges {
		if c := &charges[i]; c.Force && c.Cost > 0 && e.find(c.Limit.ID) == nil {
			grows++
		}
	}
	if grows > 0 && !sh.room(now, subject, grows, false) {
		return settled, limiter.ErrFull
	}
	for i := range charges {
		c := &charges[i]
		at := e.find(c.Limit.ID)
		var r algo.Result
		switch {
		case c.Force:
			at = sh.current(e, c, now, &r)
		case at != nil:
			r = at.held().Result
		default:
			continue
		}
		var given bool
		settled.Excess[i], given = r.Settle(now, results[i], c.Cost, c.Force, elapsed+refundMargin)
		switch {
		case given:
			settled.Given++
			sh.set(at, r.State)
		case c.Force && c.Cost > 0:
			e = sh.put(e, subject, c.Limit, r.State, now)
		}
	}
	return settled, nil
}

// Inspect implements limiter.Store.
func (s *Store) Inspect(_ context.Context, subject limiter.Subject) (entries []limiter.Entry, err error) {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	if e := sh.entries[subject]; e != nil {
		for i := range e.counts {
			entries = append(entries, limiter.Entry{ID: e.counts[i].limit.ID, Held: e.counts[i].held()})
		}
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// Reset implements limiter.Store.
func (s *Store) Reset(_ context.Context, subject limiter.Subject) error {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	if e := sh.entries[subject]; e != nil {
		sh.drop(subject, e, func(c *count) bool {
			moved, before := c.moved()
			sh.set(c, algo.State{Window: c.state.Window}.WithMoved(moved, before))
			c.skew = algo.Skew{}
			return moved == 0 && before == 0
		})
	}
	return nil
}

// Debit implements limiter.Shares.
func (s *Store) Debit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64,
	seen *algo.Result) (moved int64, err error) {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	e := sh.entries[subject]
	at, held := e.find(limit.ID), limiter.Held{}
	if at != nil {
		held = at.held()
	}
	giving, ok := held.Giving(limit, now)
	*seen = held.Result
	if !ok {
		return 0, nil
	}
	next, moved := limit.Machine().(*algo.Shared).Debit(giving.State, index, now, lack)
	*seen = giving.Result
	if moved == 0 || at == nil && !sh.room(now, subject, 1, false) {
		return 0, nil
	}
	if at != nil && !same(at.limit, limit) {
		sh.replace(at, count{limit: limit})
	}
	sh.put(e, subject, limit, next, now)
	seen.State = next
	return moved, nil
}

// Credit implements limiter.Shares.
func (s *Store) Credit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index,
	moved int64) (r algo.Result, credited bool, err error) {
	sh := s.lock(subject)
	defer sh.mu.Unlock()
	e := sh.entries[subject]
	at, state := e.find(limit.ID), algo.State{}
	if at != nil {
		state = at.state
		if !same(at.limit, limit) {
			return r, false, nil
		}
	}
	next, ok := limit.Machine().(*algo.Shared).Credit(state, index, moved)
	if !ok {
		return r, false, nil
	}
	if at == nil && !sh.room(now, subject, 1, false) {
		return r, false, limiter.ErrFull
	}
	sh.put(e, subject, limit, next, now)
	return algo.Result{Machine: limit.Machine(), State: next}, true, nil
}

// same reports whether two limits make the same decisions. A new version of the rules can contain an
// unchanged limit.
func same(a, b *limiter.Limit) bool { return a == b || a.Fingerprint() == b.Fingerprint() }
