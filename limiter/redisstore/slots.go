package redisstore

import (
	"bytes"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// slotsLayout is the layout of slots: that of a log, whose parameters end with slotsMark.
type slotsLayout struct{ logLayout }

// slotsMark distinguishes slots from a log: the parameters of a log never end with a zero byte.
const slotsMark = 0

func (slotsLayout) parameters(m algo.Machine) (kind byte, p parameters) {
	l := m.(*algo.Slots)
	p = newParameters(l.Length, l.Requests)
	p.bytes[p.size] = slotsMark
	p.size++
	return kindLog, p
}

func (slotsLayout) machine(r stored) (algo.Machine, error) {
	return parse("slots", bytes.TrimSuffix(r.limit[limitSize:], []byte{slotsMark}))
}

func (slotsLayout) take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	l := m.(*algo.Slots)
	room := l.Requests - c.Cost
	if c.Force {
		room = l.MaxDebt() - c.Cost
	}
	return appendEntries(b, now.Sub(algo.LastSlot(now.Add(-l.Length))), room, c.Cost, algo.LastSlot(now.Add(algo.MaxSkew)))
}
