package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// verdict compares decisions with those of an oracle. The oracle runs the algorithm on all requests, in
// the order of their times. The comparison counts the admitted requests of each window, because it does
// not matter which of two concurrent requests is admitted.
type verdict struct {
	due            int64 // requests that the oracle admits
	wronglyRefused int64 // sum over all windows of all callers: how many more requests the oracle admits than the limiter
	// over counts the requests that were admitted over the limit. For this number, the judge also runs
	// the algorithm on only the admitted requests. over is the number of requests that this run refuses.
	// overMost is the largest such number in one window of a caller.
	over, overMost int64
}

// judge compares decisions with the algorithm, for each caller. Its memory depends on the number of
// callers and of requests in flight, not on the number of requests.
type judge struct {
	machine algo.Machine
	cost    int64 // cost of a request at admission
	settles bool
	window  int64
	from    algo.Instant // the judge replays earlier requests, but does not count them
	callers map[uint32]*replay
	last    *replay // replay of the caller of the last request
	caller  uint32
	verdict verdict
}

// replay contains the states and counts of one caller.
type replay struct {
	all, admitted        algo.State
	index, missing, over int64 // of the current window

	// The settlements of requests that have not ended, in the order of their ends: of requests that the
	// oracle admits, and of admitted requests.
	dueEnds, admittedEnds []settlement
	// The admitted requests in flight that are not yet judged, in the order of their beginnings.
	begins []settlement
}

// settlement corrects the charge of a request when its answer ends.
type settlement struct {
	begin, end algo.Instant
	taken      algo.State // the state after the charge
	actual     int64
}

// judgeWindow is the length of the windows in which the judge compares a limit of requests in flight.
const judgeWindow = time.Second

// newJudge returns the judge of a limit. A reserve of 0 means that the limit does not settle its charges.
func newJudge(m algo.Machine, window time.Duration, from algo.Instant, reserve int64) *judge {
	j := &judge{machine: m, cost: reserve, settles: reserve > 0, window: int64(window), from: from, callers: map[uint32]*replay{}}
	if j.slots() != nil {
		j.window = int64(judgeWindow)
	}
	return j
}

// slots returns the machine of a limit of requests in flight. It returns nil for other limits.
func (j *judge) slots() *algo.Slots {
	l, _ := j.machine.(*algo.Slots)
	return l
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
	if w := j.index(r.at); w != c.index {
		j.end(c)
		c.index = w
	}
	due, passes := j.replay(c, r)
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

// index returns the window or the period of an instant.
func (j *judge) index(at algo.Instant) int64 {
	if w, ok := j.machine.(*algo.Window); ok && w.Calendar() != (algo.Calendar{}) {
		return w.Index(at)
	}
	return int64(at) / j.window
}

// replay runs the algorithm on a request twice. due reports whether the oracle admits it. passes reports
// whether the algorithm admits it if only the requests that were really admitted count.
func (j *judge) replay(c *replay, r *request) (due, passes bool) {
	if !j.settles {
		if c.all, due = j.machine.Take(c.all, r.at, 1); r.admitted {
			c.admitted, passes = j.machine.Take(c.admitted, r.at, 1)
		}
		return due, passes
	}
	began := r.at.Add(time.Duration(r.took))
	if l := j.slots(); l != nil {
		hold := func(begin algo.Instant) settlement {
			return settlement{begin: begin, end: min(begin.Add(r.lasts), r.at.Add(l.Length))}
		}
		c.dueEnds = slices.DeleteFunc(c.dueEnds, func(s settlement) bool { return s.end <= r.at })
		if due = int64(len(c.dueEnds)) < l.Requests; due {
			c.dueEnds = append(c.dueEnds, hold(r.at))
		}
		c.judgeBegins(l, r.at)
		if r.admitted {
			c.begins = insert(c.begins, hold(began), func(a, b settlement) int { return cmp.Compare(a.begin, b.begin) })
		}
		return due, true
	}
	byEnd := func(a, b settlement) int { return cmp.Compare(a.end, b.end) }
	c.all = j.settle(c.all, &c.dueEnds, r.at)
	if c.all, due = j.machine.Take(c.all, r.at, j.cost); due && r.actual != j.cost {
		c.dueEnds = insert(c.dueEnds, settlement{r.at, r.at.Add(r.lasts), c.all, r.actual}, byEnd)
	}
	if !r.admitted {
		return due, false
	}
	c.admitted = j.settle(c.admitted, &c.admittedEnds, r.at)
	if c.admitted, passes = j.machine.Take(c.admitted, r.at, j.cost); passes && r.actual != j.cost {
		c.admittedEnds = insert(c.admittedEnds, settlement{r.at, began.Add(r.lasts), c.admitted, r.actual}, byEnd)
	}
	return due, passes
}

// insert inserts one into a sorted list.
func insert(list []settlement, one settlement, by func(a, b settlement) int) []settlement {
	i, _ := slices.BinarySearchFunc(list, one, by)
	return slices.Insert(list, i, one)
}

// settle applies the settlements until an instant, and removes them from the list.
func (j *judge) settle(state algo.State, ends *[]settlement, until algo.Instant) algo.State {
	n := 0
	for ; n < len(*ends) && (*ends)[n].end <= until; n++ {
		s := &(*ends)[n]
		if more := s.actual - j.cost; more > 0 {
			state = j.machine.Force(state, s.end, more)
		} else {
			state = j.machine.Refund(state, s.taken, -more, s.end.Sub(s.begin))
		}
	}
	*ends = slices.Delete(*ends, 0, n)
	return state
}

// judgeBegins judges the admitted requests that began until an instant. Every later request begins after
// it. A request is over the limit if it begins while as many requests as the limit allows are in flight.
func (c *replay) judgeBegins(l *algo.Slots, until algo.Instant) {
	n := 0
	for ; n < len(c.begins) && c.begins[n].begin <= until; n++ {
		one := c.begins[n]
		c.admittedEnds = slices.DeleteFunc(c.admittedEnds, func(s settlement) bool { return s.end <= one.begin })
		if int64(len(c.admittedEnds)) >= l.Requests {
			c.over++
		}
		c.admittedEnds = append(c.admittedEnds, one)
	}
	c.begins = slices.Delete(c.begins, 0, n)
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
		if l := j.slots(); l != nil {
			c.judgeBegins(l, algo.Instant(1<<62))
		}
		j.end(c)
	}
	return j.verdict
}
