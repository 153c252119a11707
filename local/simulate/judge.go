package simulate

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// verdict is the accuracy of decisions, compared with an oracle. The oracle runs the algorithm on all
// requests, in the order of their times. The comparison counts the admitted requests of each window,
// because it does not matter which of two concurrent requests is admitted.
type verdict struct {
	due            int64 // requests that the oracle admits
	wronglyRefused int64 // sum over all windows of all callers: how many more requests the oracle admits than the limiter
	// over counts the requests that were admitted over the limit. For this number, the judge also runs
	// the algorithm on only the admitted requests. over is the number of requests that this run refuses.
	// overMost is the largest such number in one window of a caller.
	over, overMost int64
}

// judge compares decisions with the algorithm, for each caller. Its memory depends on the number of
// callers, not on the number of requests.
type judge struct {
	machine algo.Machine
	window  int64
	from    algo.Instant // earlier requests are replayed but not counted
	callers map[uint32]*replay
	last    *replay // replay of the caller of the last request
	caller  uint32
	verdict verdict
}

// replay contains the states and counts of one caller.
type replay struct {
	all, admitted        algo.State
	index, missing, over int64 // of the current window
}

func newJudge(m algo.Machine, window time.Duration, from algo.Instant) *judge {
	return &judge{machine: m, window: int64(window), from: from, callers: map[uint32]*replay{}}
}

// add judges one request. The caller must add the requests in the order of their times.
func (j *judge) add(r *request) {
	if r.away {
		return
	}
	if j.last == nil || j.caller != r.caller {
		c := j.callers[r.caller]
		if c == nil {
			c = new(replay)
			j.callers[r.caller] = c
		}
		j.caller, j.last = r.caller, c
	}
	c := j.last
	if w := int64(r.at) / j.window; w != c.index {
		j.end(c)
		c.index = w
	}
	var due, passes bool
	c.all, due = j.machine.Take(c.all, r.at, 1)
	if r.admitted {
		c.admitted, passes = j.machine.Take(c.admitted, r.at, 1)
	}
	if r.at < j.from {
		return
	}
	if due {
		j.verdict.due++
		c.missing++
	}
	if r.admitted {
		c.missing--
		if !passes {
			c.over++
		}
	}
}

// end adds the current window of a caller to the verdict.
func (j *judge) end(c *replay) {
	v := &j.verdict
	v.wronglyRefused += max(0, c.missing)
	v.over += c.over
	v.overMost = max(v.overMost, c.over)
	c.missing, c.over = 0, 0
}

// close returns the verdict on all requests.
func (j *judge) close() verdict {
	for _, c := range j.callers {
		j.end(c)
	}
	return j.verdict
}
