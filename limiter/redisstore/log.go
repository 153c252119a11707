package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// logLayout is the layout of a log: its newest instant, and its entries.
type logLayout struct{}

func (logLayout) kind() byte { return kindLog }

// logHead is the size of the state of a log without entries.
const logHead = 8 + 4

func (logLayout) read(state string) algo.State {
	return algo.State{Newest: algo.Instant(integer(state[:8])), Entries: algo.Entries(state[logHead:])}
}

func (logLayout) write(b []byte, s algo.State) []byte {
	b = appendInteger(appendInteger(b, int64(s.Newest), 8), int64(s.Entries.Len()), 4)
	return append(b, s.Entries...)
}

func (logLayout) take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte {
	l := m.(*algo.Log)
	room := l.Requests - c.Cost
	if c.Force {
		room = l.MaxDebt() - c.Cost
	}
	return appendEntries(b, l.Length, room, c.Cost, l.MaxHonest(now))
}

// appendEntries appends the time for which entries count before now, the largest number of entries that allows the
// cost, the cost, and the latest entry of honest clocks.
func appendEntries(b []byte, since time.Duration, room, cost int64, honest algo.Instant) []byte {
	b = appendIntegers(appendInteger(b, int64(since), 8), 4, room, cost)
	return appendIntegers(appendInteger(b, int64(honest), 8), 4, 0)
}

// force implements layout. settle.lua forces no charge on a log.
func (logLayout) force(b []byte, _ algo.Machine, _ algo.Instant, _ limiter.Charge) []byte {
	return appendIntegers(b, 4, 0, 0, 0, 0, 0, 0, 0)
}

func (logLayout) refund(b []byte, _ algo.Machine, charged algo.State, cost int64, _ time.Duration) []byte {
	return appendIntegers(appendInteger(b, int64(charged.Newest), 8), 4, cost, 0, 0, 0, 0)
}
