package memstore

import (
	"context"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

var _ limiter.Shares = (*Store)(nil)

// Debit implements limiter.Shares.
func (s *Store) Debit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64, seen *algo.Result) (moved int64, err error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	at, held := sh.shared(k, limit)
	giving, ok := held.Giving(limit, now)
	if *seen = held.Result; !ok {
		return 0, nil
	}
	next, moved := limit.Machine().(*algo.Shared).Debit(giving.State, index, now, lack)
	if *seen = giving.Result; moved == 0 || at == nil && !sh.room(now, k, weight(limit)) {
		return 0, nil
	}
	if at != nil && !same(sh.limit(at), limit) {
		sh.drop(at)
		sh.use(at, limit)
	}
	sh.charge(k, at, limit, next, now)
	seen.State = next
	return moved, nil
}

// Credit implements limiter.Shares.
func (s *Store) Credit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, moved int64) (algo.Result, bool, error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	at, held := sh.shared(k, limit)
	if at != nil && !same(sh.limit(at), limit) {
		return algo.Result{}, false, nil
	}
	next, ok := limit.Machine().(*algo.Shared).Credit(held.State, index, moved)
	if !ok {
		return algo.Result{}, false, nil
	}
	if at == nil && !sh.room(now, k, weight(limit)) {
		return algo.Result{}, false, limiter.ErrFull
	}
	sh.charge(k, at, limit, next, now)
	return algo.Result{Machine: limit.Machine(), State: next}, true, nil
}

// shared returns the node of a limit and what it holds; nil if the limit was never charged.
func (sh *shard) shared(k key, limit *limiter.Limit) (at *node, held limiter.Held) {
	if at = sh.find(k, limit.ID); at != nil {
		held = sh.held(at)
	}
	return at, held
}

// resetShared resets a subject of which share has moved: it keeps what moved, and removes all other state. It returns
// false, and changes nothing, if none has moved.
func (sh *shard) resetShared(k key) bool {
	kept := false
	for i := *sh.chain(k.hash); i != 0; i = sh.node(i).next {
		at := sh.node(i)
		if _, moved := sh.moved[at]; moved && at.subject.Is(k.subject) {
			s := sh.state(at)
			s.Count, s.Previous, kept = 0, 0, true
			sh.put(at, s)
			delete(sh.skews, at)
		}
	}
	if kept {
		sh.removeNodes(sh.chain(k.hash), func(at *node) bool {
			_, moved := sh.moved[at]
			return !moved && at.subject.Is(k.subject)
		})
	}
	return kept
}
