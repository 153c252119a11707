package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// specification describes the model as a state machine. Its inputs are the events of one subject.
func specification(limits [][]*limiter.Limit, margin time.Duration) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return &Model{Margin: margin} },
		Step: func(state, input, _ any) (bool, any) {
			next := state.(*Model).clone()
			return next.explains(limits, input.(event)), next
		},
		Equal: func(a, b any) bool { return a.(*Model).equal(b.(*Model)) },
	}
}

// explains applies an event to m. It reports whether m returns the same answer as the store.
func (m *Model) explains(limits [][]*limiter.Limit, e event) bool {
	who := limiter.User(e.Op.Subject)
	charges := charges(limits, who, e.Op.Charges)
	switch e.Op.Kind {
	case takes:
		allowed, results := m.TakeSeen(e.Op.Now, who, charges, e.Taken)
		return allowed == e.Allowed && slices.Equal(seenOf(results), e.Seen)
	case settles:
		results := make([]algo.Result, len(charges))
		for i, given := range e.Given {
			machine, err := algo.Parse(given.Fingerprint)
			if err != nil {
				return false
			}
			results[i] = algo.Result{Machine: machine, State: given.State}
		}
		if e.Used { // the other message of the ID may make the corrections later (Linear.check)
			return true
		}
		if e.Contended {
			m.release(who, charges, results)
			return true
		}
		// If the message of the ID before it changed nothing, a store need not know the ID.
		_, err := m.Settle(e.Op.Now, who, charges, results, e.Op.Elapsed, e.Op.Once)
		return err == nil
	case resets:
		m.Reset(who)
	case inspects:
		return slices.Equal(seenIn(m.Inspect(who)), e.Seen)
	}
	return true
}

func (m *Model) clone() *Model {
	c := &Model{Margin: m.Margin, held: map[limiter.Subject]map[limiter.ID]limiter.Held{}, settled: maps.Clone(m.settled), slots: maps.Clone(m.slots)}
	for subject, held := range m.held {
		c.held[subject] = maps.Clone(held)
	}
	return c
}

// equal reports whether two models are equal. A subject without limits equals an unknown subject.
func (m *Model) equal(o *Model) bool {
	for _, subject := range slices.AppendSeq(slices.Collect(maps.Keys(m.held)), maps.Keys(o.held)) {
		if !maps.Equal(m.held[subject], o.held[subject]) {
			return false
		}
	}
	return maps.Equal(m.settled, o.settled) && maps.Equal(m.slots, o.slots)
}
