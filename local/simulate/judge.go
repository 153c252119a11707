package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
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

// judge compares decisions with the algorithms of the limits. Its memory grows with the number of callers and of
// requests in flight, not with the number of requests.
type judge struct {
	scenario *Scenario
	window   int64          // the longest window of the limits
	calendar *limiter.Limit // the limit with the longest period, if that is longer than every window
	from     algo.Instant   // start of the measurement; earlier requests are replayed but not counted
	shared   *totals        // totals of all callers, if they share a limit; otherwise each caller has its own
	callers  map[uint32]*replay
	counters map[limiter.Charge]*counter // by charge
	last     *replay                     // replay of the latest request's caller
	caller   uint32
	next     []algo.State
	verdict  verdict
}

// replay has the counters that the requests of a caller charge.
type replay struct {
	*totals
	counters []*counter
}

// totals are the numbers of the current window, of a caller or of all callers.
type totals struct{ index, missing, over int64 }

// counter has the state of one limit of a subject.
type counter struct {
	*totals
	charge        limiter.Charge
	machine       algo.Machine
	all, admitted algo.State
	settles       bool
	slots         bool // the limit counts requests in flight

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

func newJudge(s *Scenario, from algo.Instant) *judge {
	j := &judge{scenario: s, from: from, calendar: s.calendar(), callers: map[uint32]*replay{}, counters: map[limiter.Charge]*counter{}}
	j.window = int64(cmp.Or(s.longest(), judgeWindow))
	mine, others := s.enforced(1), s.enforced(2)
	for _, c := range mine {
		if slices.Contains(others, c) {
			j.shared = new(totals)
		}
	}
	return j
}

func (j *judge) replayOf(caller uint32) *replay {
	if r := j.callers[caller]; r != nil {
		return r
	}
	r := &replay{totals: cmp.Or(j.shared, new(totals))}
	for _, c := range j.scenario.enforced(caller) {
		k := j.counters[c]
		if k == nil {
			k = &counter{totals: r.totals, charge: c, machine: wholeMachine(c.Limit), settles: c.Limit.Count.Settles(), slots: c.Limit.Rate.Algorithm.TakesSlots()}
			j.counters[c] = k
		}
		r.counters = append(r.counters, k)
	}
	j.callers[caller] = r
	return r
}

// add judges one request. Requests must be added in order of time.
func (j *judge) add(r *request) {
	if r.away {
		return
	}
	if j.last == nil || j.caller != r.caller {
		j.caller, j.last = r.caller, j.replayOf(r.caller)
	}
	c := j.last
	if w := j.index(r.at); w != c.index {
		j.end(c.totals)
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
	if j.calendar != nil {
		return algo.WindowOf(j.calendar.Machine()).Index(at)
	}
	return int64(at) / j.window
}

// replay runs the algorithms on a request twice. due is the decision if the oracle's admissions
// count. passes is the decision if the limiter's admissions count.
func (j *judge) replay(c *replay, r *request) (due, passes bool) {
	due, passes, j.next = true, true, j.next[:0]
	for _, k := range c.counters {
		next, ok := k.offer(r)
		j.next, due = append(j.next, next), due && ok
	}
	for i, k := range c.counters {
		if due {
			k.take(j.next[i], r)
		}
		passes = k.admit(r) && passes
	}
	return due, passes
}

// offer returns the state after the charge of a request on the oracle's count, and whether the limit admits it.
func (k *counter) offer(r *request) (algo.State, bool) {
	if k.slots {
		k.dueEnds = slices.DeleteFunc(k.dueEnds, func(s settlement) bool { return s.end <= r.at })
		return k.all, int64(len(k.dueEnds)) < k.machine.Capacity()
	}
	k.all = k.settle(k.all, &k.dueEnds, r.at)
	return k.machine.Take(k.all, r.at, k.charge.Cost)
}

// take charges a request that the oracle admits. next is the state from offer.
func (k *counter) take(next algo.State, r *request) {
	if k.slots {
		k.dueEnds = append(k.dueEnds, k.hold(r, r.at))
		return
	}
	k.all = next
	k.insert(&k.dueEnds, settlement{begin: r.at, end: r.at.Add(r.lasts), taken: next}, r)
}

// admit charges a request that the limiter admitted. passes is false if that is above the limit.
func (k *counter) admit(r *request) (passes bool) {
	began := r.at.Add(time.Duration(r.took))
	if k.slots {
		k.judgeBegins(r.at)
		if r.admitted {
			k.begins = insert(k.begins, k.hold(r, began), func(a, b settlement) int { return cmp.Compare(a.begin, b.begin) })
		}
		return true
	}
	if !r.admitted {
		return false
	}
	k.admitted = k.settle(k.admitted, &k.admittedEnds, r.at)
	if k.admitted, passes = k.machine.Take(k.admitted, r.at, k.charge.Cost); passes {
		k.insert(&k.admittedEnds, settlement{begin: r.at, end: began.Add(r.lasts), taken: k.admitted}, r)
	}
	return passes
}

// hold returns the time in which a request that begins at an instant holds its slot.
func (k *counter) hold(r *request, begin algo.Instant) settlement {
	return settlement{begin: begin, end: min(begin.Add(r.lasts), r.at.Add(k.charge.Limit.Rate.Window))}
}

// insert adds a settlement of a request to a list, unless it changes nothing.
func (k *counter) insert(list *[]settlement, one settlement, r *request) {
	if !k.settles {
		return
	}
	if one.actual = r.actual(k.charge); one.actual != k.charge.Cost {
		*list = insert(*list, one, func(a, b settlement) int { return cmp.Compare(a.end, b.end) })
	}
}

func insert(list []settlement, one settlement, by func(a, b settlement) int) []settlement {
	i, _ := slices.BinarySearchFunc(list, one, by)
	return slices.Insert(list, i, one)
}

// settle applies the settlements up to a time, and removes them from the list.
func (k *counter) settle(state algo.State, ends *[]settlement, until algo.Instant) algo.State {
	n := 0
	for ; n < len(*ends) && (*ends)[n].end <= until; n++ {
		s := &(*ends)[n]
		if more := s.actual - k.charge.Cost; more > 0 {
			state = k.machine.Force(state, s.end, more)
		} else {
			state = k.machine.Refund(state, s.taken, -more, s.end.Sub(s.begin))
		}
	}
	*ends = slices.Delete(*ends, 0, n)
	return state
}

// judgeBegins judges the admitted requests that began up to a time; all later ones begin after it.
// A request is over the limit if it begins while as many requests as the limit are in flight.
func (k *counter) judgeBegins(until algo.Instant) {
	n := 0
	for ; n < len(k.begins) && k.begins[n].begin <= until; n++ {
		one := k.begins[n]
		k.admittedEnds = slices.DeleteFunc(k.admittedEnds, func(s settlement) bool { return s.end <= one.begin })
		if int64(len(k.admittedEnds)) >= k.machine.Capacity() {
			k.over++
		}
		k.admittedEnds = append(k.admittedEnds, one)
	}
	k.begins = slices.Delete(k.begins, 0, n)
}

// end adds the numbers of a current window to the verdict.
func (j *judge) end(c *totals) {
	v := &j.verdict
	v.wronglyRefused += max(0, c.missing)
	v.over += c.over
	v.overMost = max(v.overMost, c.over)
	c.missing, c.over = 0, 0
}

func (j *judge) close() verdict {
	for _, k := range j.counters {
		if k.slots {
			k.judgeBegins(algo.Instant(1 << 62))
		}
	}
	for _, c := range j.callers {
		j.end(c.totals)
	}
	return j.verdict
}
