package limiter

import (
	"github.com/weir-limits/weir/limiter/algo"
)

// Charge is a cost on one limit of a subject. A cost of 0 only reads the state.
type Charge struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
	// Force charges even beyond the limit. algo.Machine.Force bounds the debt. Use Force for costs that
	// are known only after the request. It is invalid on a limit with shards.
	Force bool
}

// Apply charges c to a state of m. It returns the next state, and whether c is allowed. All stores use
// it to decide.
func (c Charge) Apply(m algo.Machine, s algo.State, now algo.Instant) (algo.State, bool) {
	if c.Force {
		return m.Force(s, now, c.Cost), true
	}
	return m.Take(s, now, c.Cost)
}
