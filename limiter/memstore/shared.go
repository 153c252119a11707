package memstore

import (
	"context"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

var _ limiter.Shares = (*Store)(nil)

// Debit implements limiter.Shares.
func (s *Store) Debit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64) (moved int64, err error) {
	_, _, err = s.move(now, subject, limit, func(w *algo.Shared, state algo.State) (next algo.State, ok bool) {
		next, moved = w.Debit(state, index, now, lack)
		return next, moved > 0
	})
	if err != nil {
		moved = 0
	}
	return moved, err
}

// Credit implements limiter.Shares.
func (s *Store) Credit(_ context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, moved int64) (algo.Result, bool, error) {
	return s.move(now, subject, limit, func(w *algo.Shared, state algo.State) (algo.State, bool) {
		return w.Credit(state, index, moved)
	})
}

// move changes the state of a limit, unless the store holds it with other parameters.
func (s *Store) move(now algo.Instant, subject limiter.Subject, limit *limiter.Limit, change func(*algo.Shared, algo.State) (algo.State, bool)) (r algo.Result, ok bool, err error) {
	sh, k := s.lock(subject)
	defer sh.mu.Unlock()
	at := sh.find(k, limit.ID)
	if at != nil && !same(sh.limit(at), limit) {
		return r, false, nil
	}
	var state algo.State
	if at != nil {
		state = sh.state(at)
	}
	next, ok := change(limit.Machine().(*algo.Shared), state)
	if !ok {
		return r, false, nil
	}
	if at == nil && !sh.room(now, k, weight(limit)) {
		return r, false, limiter.ErrFull
	}
	sh.charge(k, at, limit, next, now)
	return algo.Result{Machine: limit.Machine(), State: next}, true, nil
}

// resetShared resets a subject of which share has moved: it keeps what moved, and removes all other state. It returns
// false, and changes nothing, if none has moved.
func (sh *shard) resetShared(k key) bool {
	kept := false
	for i := *sh.chain(k.hash); i != 0; i = sh.slot(i).next {
		at := sh.slot(i)
		if _, moved := sh.moved[at]; moved && at.subject.Is(k.subject) {
			s := sh.state(at)
			s.Count, s.Previous, kept = 0, 0, true
			sh.put(at, s)
			delete(sh.skews, at)
		}
	}
	if kept {
		sh.removeSlots(sh.chain(k.hash), func(at *slot) bool {
			_, moved := sh.moved[at]
			return !moved && at.subject.Is(k.subject)
		})
	}
	return kept
}
