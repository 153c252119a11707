package simulate

import "github.com/weir-limits/weir/limiter/algo"

// event is something that happens to an environment at an instant.
type event struct {
	at     algo.Instant
	serial uint64 // the order of events at one instant
	kind   kind
	env    *environment
}

type kind uint8

const (
	served   kind = iota // the call arrives at the store
	answered             // the answer arrives
	timedOut             // the wait for the answer ends
	freed                // the invocation ends
)

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.serial < f.serial
}

// events is a queue of future events: a heap with four branches, because there are thousands
// of events and each fills a cache line.
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

// pop removes and returns the first event. The queue must not be empty.
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
