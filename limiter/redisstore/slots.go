package redisstore

import (
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// slotsLayout is the layout of slots: that of a log.
type slotsLayout struct{ logLayout }

func (slotsLayout) kind() byte { return kindSlots }

func (slotsLayout) take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	l := m.(*algo.Slots)
	room := l.Requests - c.Cost
	if c.Force {
		room = l.MaxDebt() - c.Cost
	}
	return appendEntries(b, now.Sub(algo.LastSlot(now.Add(-l.Length))), room, c.Cost, algo.LastSlot(now.Add(algo.MaxSkew)))
}
