package memstore

import (
	"fmt"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// settled are the IDs of settlements that were made: a part of the IDs of a store, which are random. The IDs of a
// busy subject are in all parts.
type settled struct {
	mu        sync.Mutex
	ids       map[settledID]algo.Instant // expiry of each ID
	most      int                        // largest number of IDs
	forgotten algo.Instant               // latest expiry of a forgotten ID
	swept     algo.Instant               // instant of the last sweep
}

type settledID struct {
	subject limiter.Subject
	id      limiter.VoucherID
}

// sweepIDs is the least time between two sweeps of the IDs.
const sweepIDs = time.Minute

// settled returns the part that has an ID.
func (s *Store) settled(once limiter.Once) *settled { return &s.ids[int(once.ID[1])%shards] }

// check returns an error if the settlement was made before, or if s cannot keep its ID or no longer knows it. The
// caller holds the lock.
func (s *settled) check(now algo.Instant, subject limiter.Subject, once limiter.Once) error {
	if err := once.Expired(now); err != nil {
		return err
	}
	if now.Sub(s.swept).Abs() >= sweepIDs {
		s.sweep(now)
	}
	if _, ok := s.ids[settledID{subject, once.ID}]; ok {
		return limiter.ErrVoucherUsed
	}
	if once.Expires <= s.forgotten {
		return fmt.Errorf("%w: a clock was ahead, so the store has forgotten IDs with this expiry", limiter.ErrVoucherExpired)
	}
	if len(s.ids) >= s.most {
		return fmt.Errorf("%w: the store is full (got %d IDs of settlements)", limiter.ErrVoucherExpired, len(s.ids))
	}
	return nil
}

func (s *settled) add(subject limiter.Subject, once limiter.Once) {
	if s.ids == nil {
		s.ids = map[settledID]algo.Instant{}
	}
	s.ids[settledID{subject.Clone(), once.ID}] = once.Expires
}

// sweep forgets the IDs that have expired for every correct clock.
func (s *settled) sweep(now algo.Instant) {
	s.swept = now
	for id, expires := range s.ids {
		if now.Sub(expires) >= algo.MaxSkew {
			s.forgotten = max(s.forgotten, expires)
			delete(s.ids, id)
		}
	}
}
