package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// answer draws how long a request lasts after its admission, and its actual cost.
func (s *simulation) answer(r *rand.Rand) (lasts time.Duration, actual int64) {
	lasts = s.durations.draw(r)
	switch s.Limit.Count.Of {
	case limiter.CountCost, limiter.CountBytes:
		actual = min(int64(s.costs.draw(r)), algo.MaxRequests)
	case limiter.CountFailures:
		if r.Float64() < s.Answers.Failures {
			actual = 1
		}
	case limiter.CountRequests, limiter.CountConcurrent:
	}
	return lasts, actual
}

// startsAt returns the start of the simulation. A period ends in the middle of the measured time,
// so that its end is simulated.
func (s *Scenario) startsAt() algo.Instant {
	w, ok := s.Limit.Machine().(*algo.Window)
	if !ok || w.Calendar() == (algo.Calendar{}) {
		return epoch
	}
	within := epoch.Add(s.Warmup + s.Measured)
	end := w.Start(w.Index(within)).Add(w.LengthAt(within))
	return end.Add(-s.Warmup - s.Measured/2)
}
