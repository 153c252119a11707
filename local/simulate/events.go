package simulate

import "github.com/weir-limits/weir/limiter/algo"

// event is something that happens to an environment at an instant.
type event struct {
	at     algo.Instant
	serial uint64 // in order of which those of one instant happen
	kind   kind
	env    *environment
}

type kind uint8

const (
	served   kind = iota // its call arrives at the store
	answered             // it has the answer
	timedOut             // it stops waiting for one
	freed                // its invocation ends
)

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.serial < f.serial
}

// events are what is to come: a heap of four branches, for there are thousands, and each
// is a line of cache.
type events struct {
	heap   []event
	serial uint64
}

const branches = 4

func (q *events) push(at algo.Instant, k kind, env *environment) {
	q.serial++
	e := event{at, q.serial, k, env}
	i := len(q.heap)
	q.heap = append(q.heap, e)
	for i > 0 {
		up := (i - 1) / branches
		if !e.before(q.heap[up]) {
			break
		}
		q.heap[i] = q.heap[up]
		i = up
	}
	q.heap[i] = e
}

// pop returns the first event. There is one.
func (q *events) pop() event {
	first, n := q.heap[0], len(q.heap)-1
	e := q.heap[n]
	q.heap = q.heap[:n]
	i := 0
	for {
		least := i*branches + 1
		if least >= n {
			break
		}
		for j := least + 1; j < min(least+branches, n); j++ {
			if q.heap[j].before(q.heap[least]) {
				least = j
			}
		}
		if !q.heap[least].before(e) {
			break
		}
		q.heap[i] = q.heap[least]
		i = least
	}
	if n > 0 {
		q.heap[i] = e
	}
	return first
}
