package simulate

import (
	"strconv"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// minEdge is the minimum of Parameters.Edge. It is longer than a tick, so an entry acts in a later tick than that of its
// refusal, and all environments see the same list.
const minEdge = time.Second

// entry is a caller in the list of a distribution.
type entry struct {
	caller     uint32
	acts, ends algo.Instant
}

// atEdge reports whether the distribution refuses a request of a caller. The list does not change during a tick.
func (s *simulation) atEdge(caller uint32, now algo.Instant) bool {
	e, listed := s.list[caller]
	return listed && now >= e.acts && now < e.ends
}

// watch lists a caller if a refusal from memory is one of many, with the code of the functions.
func (e *environment) watch(caller uint32, d *limiter.Decision) {
	if e.watched == nil || !d.FromCache || d.Allowed || d.Limit == nil || !d.Limit.Edge || d.Reason != limiter.ReasonNone {
		return
	}
	until := d.At.Add(d.RetryAfter)
	if e.watched.Refused(e.begun.Time(), strconv.FormatUint(uint64(caller), 10), until) {
		e.listed = append(e.listed, entry{caller, e.begun.Add(e.sim.Edge), algo.InstantOf(until)})
	}
}

// collectListed adds the callers whom environments have listed in the last tick to the list.
func (s *simulation) collectListed() {
	for _, e := range s.all {
		for _, one := range e.listed {
			if before, known := s.list[one.caller]; !known || before.ends < one.ends {
				s.list[one.caller] = one
			}
		}
		e.listed = e.listed[:0]
	}
}

func (s *Scenario) newWatch() *edge.Watch {
	if s.Edge == 0 {
		return nil
	}
	return edge.NewWatch(s.Edge)
}
