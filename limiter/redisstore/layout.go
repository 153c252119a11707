package redisstore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The kinds of states.
const (
	kindBucket = 1 + iota
	kindWindow
	kindLog
	kindSlots
)

// layout is how a value holds one kind of state, and what the scripts need to charge and refund it. Each kind has a
// file of its own. The rest of the Go code does not depend on the kind.
type layout interface {
	kind() byte

	read(state string) algo.State

	// write appends the state s. read is the inverse.
	write(b []byte, s algo.State) []byte

	// take appends the seven I4 of the charge c for take.lua.
	take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte

	// force appends the forced charge c as settle.lua reads it: seven integers of four bytes (I4).
	force(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte

	// refund appends the refund of a charge in the same form. charged is the state after the charge.
	refund(b []byte, m algo.Machine, charged algo.State, cost int64, late time.Duration) []byte
}

// layoutOf returns nil for a machine that this store does not keep.
func layoutOf(m algo.Machine) layout {
	switch m.(type) {
	case *algo.Bucket:
		return bucketLayout{}
	case *algo.Window:
		return windowLayout{}
	case *algo.Log:
		return logLayout{}
	case *algo.Slots:
		return slotsLayout{}
	}
	return nil
}
