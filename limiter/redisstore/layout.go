package redisstore

import (
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// layout is how a value holds one kind of algorithm, and what the scripts need to charge and refund it. Each kind has a
// file of its own. The rest of the Go code does not depend on the kind.
type layout interface {
	parameters(m algo.Machine) (kind byte, p parameters)

	// machine is the inverse of parameters.
	machine(r stored) (algo.Machine, error)

	read(r stored) algo.State

	// write returns r with the state s. read is the inverse.
	write(r stored, s algo.State) stored

	// take appends the seven I4 of the charge c for take.lua.
	take(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte

	// force appends the forced charge c as settle.lua reads it: seven integers of four bytes (I4).
	force(b []byte, m algo.Machine, now algo.Instant, c limiter.Charge) []byte

	// refund appends the refund of a charge in the same form. charged is the state after the charge.
	refund(b []byte, m algo.Machine, charged algo.State, cost int64, late time.Duration) []byte
}

func layoutOf(m algo.Machine) layout {
	switch m := m.(type) {
	case *algo.Bucket:
		return bucketLayout{}
	case *algo.Log:
		return logLayout{}
	case *algo.Slots:
		return slotsLayout{}
	case *algo.Window:
		if m.Calendar() != (algo.Calendar{}) {
			return calendarLayout{}
		}
	}
	return windowLayout{}
}

func (r stored) layout() layout {
	switch kind := r.limit[0] >> 4; {
	case kind == kindBucket:
		return bucketLayout{}
	case kind == kindCalendar:
		return calendarLayout{}
	case kind == kindLog && r.limit[len(r.limit)-1] == slotsMark:
		return slotsLayout{}
	case kind == kindLog:
		return logLayout{}
	}
	return windowLayout{}
}

// mostParameters is the size of the longest parameters: 15 units of a calendar.
const mostParameters = 15 * 3

// parameters are the encoded parameters of a limit. They have a fixed size, so that their comparison needs no
// allocation.
type parameters struct {
	size  int
	bytes [mostParameters]byte
}

// newParameters returns the parameters that most kinds have: a duration and a capacity.
func newParameters(length time.Duration, capacity int64) (p parameters) {
	p.size = len(appendDecimal(appendDecimal(p.bytes[:0], int64(length)), capacity))
	return p
}

// parse is the inverse of newParameters. kind is the kind in the fingerprint.
func parse(kind string, parameters []byte) (algo.Machine, error) {
	length, rest := decimal(parameters)
	capacity, rest := decimal(rest)
	if len(rest) > 0 {
		return nil, fmt.Errorf("parameters: %d bytes too many", len(rest))
	}
	return algo.Parse(fmt.Sprintf("%s/%s/%d", kind, time.Duration(length), capacity))
}

// appendLimit appends the identity of a limit: its tag, id and parameters.
func appendLimit(b []byte, id limiter.ID, m algo.Machine) []byte {
	kind, p := layoutOf(m).parameters(m)
	return append(appendInteger(append(b, tagged(kind, p.size)), int64(id), idSize), p.bytes[:p.size]...)
}
