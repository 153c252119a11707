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

// calls is a priority queue: a heap with four children per node, which needs fewer cache misses
// than two. There are thousands of calls, and each fills a cache line.
type calls []call

const branches = 4

func (q *calls) push(c call) {
	h := append(*q, c)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / branches
		if !c.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = c
	*q = h
}

// pop removes and returns the first call. It panics if the queue is empty.
func (q *calls) pop() call {
	h := *q
	first, n := h[0], len(h)-1
	c := h[n]
	h[n] = call{}
	h = h[:n]
	i := 0
	for {
		least := i*branches + 1
		if least >= n {
			break
		}
		for j := least + 1; j < min(least+branches, n); j++ {
			if h[j].before(&h[least]) {
				least = j
			}
		}
		if !h[least].before(&c) {
			break
		}
		h[i] = h[least]
		i = least
	}
	if n > 0 {
		h[i] = c
	}
	*q = h
	return first
}
