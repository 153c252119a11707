package simulate

import "github.com/weir-limits/weir/limiter/algo"

// call is a call that an environment has sent and the store has not yet served.
type call struct {
	at     algo.Instant // arrival at the store
	caller *environment
	serial uint32 // number of the call among all calls of its environment
	waits  bool   // true if the environment waits for the answer
	serve  func(at algo.Instant)
}

// before orders calls by arrival, and then by environment and serial, so that the order does not
// depend on the scheduling of goroutines.
func (c *call) before(d *call) bool {
	switch {
	case c.at != d.at:
		return c.at < d.at
	case c.caller.index != d.caller.index:
		return c.caller.index < d.caller.index
	}
	return c.serial < d.serial
}

// calls is a priority queue of calls, for container/heap.
type calls []call

func (q calls) Len() int           { return len(q) }
func (q calls) Less(i, j int) bool { return q[i].before(&q[j]) }
func (q calls) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *calls) Push(c any)        { *q = append(*q, c.(call)) }

// Pop implements heap.Interface: it removes the last call.
func (q *calls) Pop() any {
	h := *q
	c := h[len(h)-1]
	h[len(h)-1] = call{}
	*q = h[:len(h)-1]
	return c
}
