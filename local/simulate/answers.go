package simulate

import (
	"math/rand/v2"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// answer draws how long a request lasts after its admission, its actual cost, and whether it fails.
func (s *simulation) answer(r *rand.Rand, q *request) {
	q.lasts = s.durations.draw(r)
	if s.costly {
		q.cost = min(int64(s.costs.draw(r)), algo.MaxRequests)
	}
	if s.failing {
		q.failed = r.Float64() < s.Answers.Failures
	}
}

// actual returns what a charge of the request costs after the answer.
func (r *request) actual(c limiter.Charge) int64 {
	switch c.Limit.Count.Of {
	case limiter.CountCost, limiter.CountBytes:
		return r.cost
	case limiter.CountFailures:
		if r.failed {
			return 1
		}
		return 0
	case limiter.CountConcurrent:
		return 0
	case limiter.CountRequests:
	}
	return c.Cost
}

// calendar returns the limit with the longest period, or nil if none has a period of the length of s.longest.
func (s *Scenario) calendar() *limiter.Limit {
	for _, c := range s.enforced(1) {
		if c.Limit.Rate.Calendar.Period != "" && c.Limit.Rate.Span() == s.longest() {
			return c.Limit
		}
	}
	return nil
}

// startsAt returns the start of the simulation. The longest period ends in the middle of the measured time, so that
// its end is simulated.
func (s *Scenario) startsAt() algo.Instant {
	l := s.calendar()
	if l == nil {
		return epoch
	}
	w, within := algo.WindowOf(l.Machine()), epoch.Add(s.Warmup+s.Measured)
	end := w.Start(w.Index(within)).Add(w.LengthAt(within))
	return end.Add(-s.Warmup - s.Measured/2)
}
