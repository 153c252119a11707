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
)

// DefaultSubjects is the default of Options.Subjects.
const DefaultSubjects = 1_000_000

// Options are the options of a Store. The zero value is ready for use.
type Options struct {
	// Subjects bounds the number of subjects with one limit each; 0 means DefaultSubjects. A subject
	// counts once for each of its limits. A sliding_log, a sliding_window of up to algo.MaxExact requests or a
	// concurrent limit counts once more for every four of its requests, because its entries take that much memory.
	//
	// The bound is divided evenly among the shards of the store, at least one subject each. A
	// subject belongs to a shard by its hash. A full shard removes subjects at full quota; if there
	// are none, Take of a new subject, or of a new limit, fails with limiter.ErrFull.
	//
	// The same number, but at least leastIDs, bounds the IDs of settlements (limiter.Once) that the store keeps. If
	// the store is full of IDs, Settle returns limiter.ErrVoucherExpired.
	Subjects int
}

// Store is a limiter.Store in memory. It is safe for concurrent use.
type Store struct {
	seed   maphash.Seed
	shards [shards]shard
	ids    [shards]settled
}

var (
	_ limiter.Store = (*Store)(nil)
	_ limiter.Local = (*Store)(nil)
)

const shards = 64

// leastIDs is the number of IDs of settlements for which every Store has room.
const leastIDs = 64 * shards

// refundMargin is added to the age of a refunded charge. It covers a goroutine that waited for the
// processor after it had read the clock.
const refundMargin = 50 * time.Millisecond

// New returns an empty Store. If an option is out of range, the error names the option.
func New(o Options) (*Store, error) {
	if o.Subjects < 0 {
		return nil, fmt.Errorf("memstore: %w", &algo.FieldError{Field: "Options.Subjects", Got: o.Subjects, Want: fmt.Sprintf("at least 1; 0 means %d", DefaultSubjects)})
	}
	o.Subjects = cmp.Or(o.Subjects, DefaultSubjects)
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].init(s.seed, max(1, o.Subjects/shards))
		s.ids[i].most = max(o.Subjects, leastIDs) / shards
	}
	return s, nil
}

// lock locks the shard that holds subject. It returns the shard, and the key of subject in the shard.
func (s *Store) lock(subject limiter.Subject) (*shard, key) {
	k := key{subject.Hash(s.seed), subject}
	sh := &s.shards[k.hash%shards]
	sh.mu.Lock()
	return sh, k
}

// TakeCompact implements limiter.Local.
func (s *Store) TakeCompact(now algo.Instant, subject limiter.Subject, limit *limiter.Limit, cost int64) (state algo.Compact, allowed, known bool) {
	sh, k := s.lock(subject)
	if at := sh.find(k, limit.ID); at != nil && same(sh.limit(at), limit) {
		state, allowed, known = limit.Compacter().TakeCompact(at.state, now, cost)
		at.state = state
	}
	sh.mu.Unlock()
	return state, allowed, known
}

// Take implements limiter.Store.
func (s *Store) Take(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	var nodes [limiter.MaxCharges]*node
	allowed, grows := true, 0
	for i := range charges {
		c := &charges[i]
		nodes[i] = sh.find(k, c.Limit.ID)
		allowed = sh.decide(k, &nodes[i], c, now, &results[i]) && allowed
		if nodes[i] == nil && c.Cost > 0 {
			grows += weight(c.Limit)
		}
	}
	if !allowed {
		for i := range charges {
			results[i].State = sh.current(k, &nodes[i], &charges[i], now).State
		}
		return false, nil
	}
	if grows > 0 && !sh.room(now, k, grows) {
		return false, limiter.ErrFull
	}
	for i := range charges {
		if charges[i].Cost == 0 {
			continue
		}
		sh.charge(k, nodes[i], charges[i].Limit, results[i].State, now)
	}
	return true, nil
}

// Settle implements limiter.Store.
func (s *Store) Settle(_ context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result, elapsed time.Duration, once limiter.Once) (settled limiter.Settled, err error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	if once.Needed() {
		ids := s.settled(once)
		ids.mu.Lock()
		defer ids.mu.Unlock()
		if err := ids.check(now, subject, once); err != nil {
			return settled, err
		}
		defer func() {
			if err == nil {
				ids.add(subject, once)
			}
		}()
	}
	if grows := missing(sh, k, charges); grows > 0 && !sh.room(now, k, grows) {
		return settled, limiter.ErrFull
	}
	for i := range charges {
		c := &charges[i]
		at := sh.find(k, c.Limit.ID)
		var r algo.Result
		switch {
		case c.Force:
			r = sh.current(k, &at, c, now).Result
		case at == nil:
			continue
		default:
			r = sh.held(at).Result
		}
		var given bool
		settled.Excess[i], given = r.Settle(now, results[i], c.Cost, c.Force, elapsed+refundMargin)
		switch {
		case given:
			settled.Given++
			sh.put(at, r.State)
			sh.sooner(at)
		case c.Force && c.Cost > 0:
			sh.charge(k, at, c.Limit, r.State, now)
		}
	}
	return settled, nil
}

// missing returns the total weight of the limits that forced charges would add to the shard.
func missing(sh *shard, k key, charges []limiter.Charge) (grows int) {
	for i := range charges {
		if c := &charges[i]; c.Force && c.Cost > 0 && sh.find(k, c.Limit.ID) == nil {
			grows += weight(c.Limit)
		}
	}
	return grows
}

// Inspect implements limiter.Store.
func (s *Store) Inspect(_ context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	var entries []limiter.Entry
	for i := *sh.chain(k.hash); i != 0; i = sh.node(i).next {
		if at := sh.node(i); at.subject.Is(subject) {
			entries = append(entries, limiter.Entry{ID: sh.limit(at).ID, Held: sh.held(at)})
		}
	}
	slices.SortFunc(entries, func(a, b limiter.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return entries, nil
}

// Reset implements limiter.Store.
func (s *Store) Reset(_ context.Context, subject limiter.Subject) error {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	if sh.knows(k) && !sh.resetShared(k) {
		sh.remove(sh.chain(k.hash), subject.ID())
	}
	return nil
}

// same reports whether two limits make the same decisions. A new version of the rules can contain an
// unchanged limit.
func same(a, b *limiter.Limit) bool { return a == b || a.Fingerprint() == b.Fingerprint() }
