package redisstore

import (
	"math"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// windowLayout is the layout of a window: its newest index, and the counts of this window and of the one before.
type windowLayout struct{}

func (windowLayout) parameters(m algo.Machine) (kind byte, p parameters) {
	w := m.(*algo.Window)
	kind = kindFixed
	if w.Sliding {
		kind = kindSliding
	}
	if w.MaxDebt() > math.MaxUint16 {
		kind += kindSlidingLarge - kindSliding
	}
	return kind, newParameters(w.Length, w.Whole())
}

func (windowLayout) machine(r stored) (algo.Machine, error) {
	if kind := r.kind(); kind == kindSliding || kind == kindSlidingLarge {
		return parse("sliding", r.limit[limitSize:])
	}
	return parse("fixed", r.limit[limitSize:])
}

func (windowLayout) read(r stored) algo.State {
	half := len(r.state)/2 + 2 // offset of the previous count, which follows the index and the count
	return algo.State{Window: integer(r.state[:4]), Count: integer(r.state[4:half]), Previous: integer(r.state[half:])}
}

// write implements layout. A count can need more than 16 bits although the present limit does not, because older
// rules had a larger limit.
func (windowLayout) write(r stored, s algo.State) stored {
	if r.kind() < kindLog && max(s.Count, s.Previous) > math.MaxUint16 {
		r.limit[0] += tagged(kindSlidingLarge-kindSliding, 0)
	}
	size := 2
	if r.kind() > kindLog {
		size = 7
	}
	r.state = appendIntegers(appendInteger(nil, s.Window, 4), size, s.Count, s.Previous)
	return r
}

func (windowLayout) take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	w := m.(*algo.Window)
	index := w.Index(now)
	weight, room := w.Weight(index, now), w.Requests-c.Cost
	if c.Force {
		weight, room = 0, w.MaxDebt()-c.Cost
	}
	return appendIntegers(b, 4, index, c.Cost, w.MaxHonest(now), weight, room, c.Cost>>32, room>>32)
}

func (windowLayout) force(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	w := m.(*algo.Window)
	return appendIntegers(b, 4, w.Index(now), c.Cost, w.MaxHonest(now), w.MaxDebt(), c.Cost>>32, w.MaxDebt()>>32, 0)
}

func (windowLayout) refund(b []byte, _ algo.Machine, charged algo.State, cost int64, _ time.Duration) []byte {
	return appendIntegers(b, 4, charged.Window, cost, cost>>32, 0, 0, 0, 0)
}
