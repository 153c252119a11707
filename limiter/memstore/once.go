package memstore

import (
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// settled are the IDs of the settlements that a shard applied. They outlive the slots of their subjects.
type settled struct {
	ids       map[settledPeriod][]shortID
	count     int
	forgotten int64 // newest period whose IDs were forgotten
	swept     int64 // newest expired period at the last sweep
}

// settledPeriod are the settlements of a subject with an expiry in one period.
type settledPeriod struct {
	subject limiter.SubjectID
	period  int64
}

type shortID = [8]byte

// check returns an error if the settlement was applied before, or if the shard no longer knows whether it was.
// most is the largest number of IDs that the shard keeps.
func (s *settled) check(now algo.Instant, subject limiter.Subject, once limiter.Once, most int) error {
	s.sweep(now)
	if once.Period() <= s.forgotten {
		return once.Forgotten()
	}
	ids := s.ids[settledPeriod{subject.ID(), once.Period()}]
	for _, id := range ids {
		if id == once.Short() {
			return limiter.ErrVoucherUsed
		}
	}
	if len(ids) == limiter.MaxOnce || s.count >= most {
		return once.Crowded()
	}
	return nil
}

func (s *settled) add(subject limiter.Subject, once limiter.Once) {
	if s.ids == nil {
		s.ids = map[settledPeriod][]shortID{}
	}
	key := settledPeriod{subject.ID(), once.Period()}
	s.ids[key] = append(s.ids[key], once.Short())
	s.count++
}

// sweep forgets IDs that have expired for every clock, once a period. It sets forgotten to the newest
// period of these IDs, not to a period of the clock. Therefore, a wrong clock blocks no later
// settlements.
func (s *settled) sweep(now algo.Instant) {
	newest := limiter.Forgettable(now)
	if newest == s.swept {
		return
	}
	s.swept = newest
	for key, ids := range s.ids {
		if key.period <= newest {
			s.forgotten = max(s.forgotten, key.period)
			s.count -= len(ids)
			delete(s.ids, key)
		}
	}
}
