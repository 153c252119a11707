package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// windowLayout is the layout of a window: its newest index, and the counts of this window and of the one before.
type windowLayout struct{}

func (windowLayout) kind() byte { return kindWindow }

// windowSize is the size of an index of 4 bytes and two counts of 7.
const windowSize = 4 + 7 + 7

func (windowLayout) read(state string) algo.State {
	return algo.State{Window: integer(state[:4]), Count: integer(state[4:11]), Previous: integer(state[11:])}
}

func (windowLayout) write(b []byte, s algo.State) []byte {
	return appendIntegers(appendInteger(b, s.Window, 4), 7, s.Count, s.Previous)
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
