package simulate

import (
	"cmp"
	"slices"
	"time"

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
}

// judge compares decisions with the algorithm for each caller. Its memory grows with the number of
// callers and of requests in flight, not with the number of requests.
type judge struct {
	machine algo.Machine
	cost    int64 // charge of a request at admission
	settles bool
	window  int64
	from    algo.Instant // start of the measurement; earlier requests are replayed but not counted
	callers map[uint32]*replay
	last    *replay // replay of the latest request's caller
	caller  uint32
	verdict verdict
}

type replay struct {
	all, admitted        algo.State
	index, missing, over int64 // numbers of the current window

	// Settlements that are still to come, sorted by time: of requests that the oracle admits, and
	// of requests that the limiter admitted.
	dueEnds, admittedEnds []settlement
	// Admitted requests that judgeBegins has not judged yet, sorted by their beginning.
	begins []settlement
}

// settlement is the correction of a request's charge when its answer ends.
type settlement struct {
	begin, end algo.Instant
	taken      algo.State // state after the charge
	actual     int64
}

// judgeWindow is the length of the windows in which a limit of concurrent requests is compared.
const judgeWindow = time.Second

// newJudge returns the judge of a limit. A reserve of 0 means that charges are not settled.
func newJudge(m algo.Machine, window time.Duration, from algo.Instant, reserve int64) *judge {
	j := &judge{machine: m, cost: reserve, settles: reserve > 0, window: int64(window), from: from, callers: map[uint32]*replay{}}
	if j.slots() != nil {
		j.window = int64(judgeWindow)
	}
	return j
}

// slots returns the machine of a limit of concurrent requests, or nil for another limit.
func (j *judge) slots() *algo.Slots {
	l, _ := j.machine.(*algo.Slots)
	return l
}

// add judges one request. Requests must be added in order of time.
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

// index returns the number of the window or period at a time.
func (j *judge) index(at algo.Instant) int64 {
	if w, ok := j.machine.(*algo.Window); ok && w.Calendar() != (algo.Calendar{}) {
		return w.Index(at)
	}
	return int64(at) / j.window
}

// replay runs the algorithm on a request twice. due is the decision if the oracle's admissions
// count. passes is the decision if the limiter's admissions count.
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

func insert(list []settlement, one settlement, by func(a, b settlement) int) []settlement {
	i, _ := slices.BinarySearchFunc(list, one, by)
	return slices.Insert(list, i, one)
}

// settle applies the settlements up to a time, and removes them from the list.
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

// judgeBegins judges the admitted requests that began up to a time; all later ones begin after it.
// A request is over the limit if it begins while as many requests as the limit are in flight.
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

// end adds the numbers of a caller's current window to the verdict.
func (j *judge) end(c *replay) {
	v := &j.verdict
	v.wronglyRefused += max(0, c.missing)
	v.over += c.over
	v.overMost = max(v.overMost, c.over)
	c.missing, c.over = 0, 0
}

func (j *judge) close() verdict {
	for _, c := range j.callers {
		if l := j.slots(); l != nil {
			c.judgeBegins(l, algo.Instant(1<<62))
		}
		j.end(c)
	}
	return j.verdict
}
