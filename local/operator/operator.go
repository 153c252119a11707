package operator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Operator answers over rules and a store. Set its fields before the first question; it is
// then safe for concurrent use.
type Operator struct {
	// Store is what counts, and Kind its name: memory, dynamodb or redis.
	Store limiter.Store
	Kind  string
	// Limiters decide over Store. The first one answers, and all forget. There is at least
	// one.
	Limiters []*limiter.Limiter
	// Inside says that Limiters are those that decide requests, and that no others do: their
	// memory is all that there is.
	Inside bool
	// Rules returns the rules in force for a request that comes at an instant.
	Rules func(context.Context, time.Time) *rules.Rules
	// Identifier verifies tokens; without one none can be asked about.
	Identifier *caller.Identifier
	// Clock is read once per question.
	Clock func() time.Time
	// Address is that of a caller of whom none is given; the zero Addr if it is not known.
	Address netip.Addr
	// IPv6Bits is the length of the network that counts as one IPv6 caller; 0 means 64.
	IPv6Bits int
}

// MistakeError is a question that cannot be answered as it was asked.
type MistakeError struct{ text string }

func (e *MistakeError) Error() string { return e.text }

func mistake(format string, args ...any) error { return &MistakeError{fmt.Sprintf(format, args...)} }

// prefix returns what counts as one caller of addr.
func (o *Operator) prefix(addr netip.Addr) netip.Prefix {
	bits := o.IPv6Bits
	if bits == 0 {
		bits = 64
	}
	return caller.Prefix(addr, bits)
}

// stand returns how limits stand, as the first Limiter knows it.
func (o *Operator) stand(ctx context.Context, now time.Time, listed []rules.Listed) ([]Limit, error) {
	charges := make([]limiter.Charge, len(listed))
	for i, l := range listed {
		charges[i] = l.Charge
	}
	standings, err := o.Limiters[0].Inspect(ctx, now, charges)
	if err != nil {
		return nil, err
	}
	limits := make([]Limit, len(listed))
	for i, l := range listed {
		limits[i] = newLimit(l)
		if l.Charge.Limit.Spread.Cells == 0 || o.Inside {
			limits[i].State = newState(standings[i], now)
		}
	}
	return limits, nil
}

// notes says what the state of limits does not show.
func (o *Operator) notes(listed []rules.Listed) (notes []string) {
	var lease, sync, cells, local, shards, adaptive bool
	for _, l := range listed {
		s := l.Charge.Limit.Spread
		lease, sync, cells, shards = lease || s.Lease > 1, sync || s.Sync > 0, cells || s.Cells > 0, shards || s.Shards > 0
		adaptive = adaptive || s.Adaptive
		local = local || l.Charge.Limit.OnError == limiter.OnErrorLocal
	}
	add := func(is bool, text string) {
		if is {
			notes = append(notes, text)
		}
	}
	remote := o.Kind != memory
	add(lease && remote, "what environments have leased counts as charged")
	add(shards && remote, "a limit with shards is told as their sum: a request asks one or two of them")
	add(sync && remote, "what environments counted since they last synchronized is not shown")
	add(adaptive && remote, "of a limit with adaptive shares the average of four seconds is shown, as environments reported it")
	add(cells && o.Inside, "a limit with cells is counted by each function for itself: shown is the first API's")
	add(cells && !o.Inside, "a limit with cells is counted in the memory of each environment: it cannot be seen from here")
	add(local && remote, "what environments count by themselves while the store fails is not shown")
	return notes
}

// memory is the Kind of a store in this process.
const memory = "memory"
