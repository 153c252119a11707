package simulate

import (
	"github.com/weir-limits/weir/limiter/algo"
)

// verdict compares decisions with an oracle: the algorithm, run on all requests in order of time.
// It compares the number of admitted requests per window, because it does not matter which of two
// concurrent requests is admitted.
type verdict struct {
	due            int64 // number of requests that the oracle admits
	wronglyRefused int64 // how many more requests the oracle admits than the limiter, summed over the windows in which it does
	// over counts requests admitted over the limit. To find them, the judge also runs the algorithm
	// on the admitted requests alone; over is how many of those it refuses. overMost is the largest
	// such number in one window of one caller.
	over, overMost int64
	// refusing is the number of windows of a caller in which the limiter refused a request, and missingMost the largest number of
	// requests that it refused wrongly in one of them.
	refusing, missingMost int64
}

// judge compares decisions with the algorithm of the limit. Its memory grows with the number of callers, not with the
// number of requests.
type judge struct {
	machine algo.Machine
	window  int64
	from    algo.Instant // start of the measurement; earlier requests are replayed but not counted
	callers map[uint32]*replay
	verdict verdict
}

// replay has the states of the algorithm for a caller, and the numbers of the current window.
type replay struct {
	all, admitted        algo.State
	index, missing, over int64
	refused              bool
}

func newJudge(s *Scenario, from algo.Instant) *judge {
	return &judge{machine: s.Limit.Machine(), window: int64(s.Limit.Rate.Span()), from: from, callers: map[uint32]*replay{}}
}

// add judges one request. Requests must be added in order of time.
func (j *judge) add(r *request) {
	if r.away {
		return
	}
	c := j.callers[r.caller]
	if c == nil {
		c = new(replay)
		j.callers[r.caller] = c
	}
	if w := int64(r.at) / j.window; w != c.index {
		j.end(c)
		c.index = w
	}
	var due, passes bool
	c.all, due = j.machine.Take(c.all, r.at, 1)
	if due && r.at >= j.from {
		j.verdict.due++
		c.missing++
	}
	if !r.admitted {
		c.refused = c.refused || r.at >= j.from
		return
	}
	c.admitted, passes = j.machine.Take(c.admitted, r.at, 1)
	if r.at >= j.from {
		c.missing--
		if !passes {
			c.over++
		}
	}
}

// end adds the numbers of a current window to the verdict.
func (j *judge) end(c *replay) {
	v := &j.verdict
	v.wronglyRefused += max(0, c.missing)
	v.over += c.over
	v.overMost = max(v.overMost, c.over)
	if c.refused {
		v.refusing++
	}
	v.missingMost = max(v.missingMost, c.missing)
	c.missing, c.over, c.refused = 0, 0, false
}

func (j *judge) close() verdict {
	for _, c := range j.callers {
		j.end(c)
	}
	return j.verdict
}
