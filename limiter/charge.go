package limiter

import (
	"fmt"

	"github.com/weir-limits/weir/limiter/algo"
)

// Charge is a cost put on one limit of a subject. A cost of 0 charges nothing: it
// looks.
type Charge struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
	// Spend charges even past the limit, into a debt of at most one capacity. It is for
	// costs that are known afterwards.
	Spend bool
}

// Apply returns what the charge makes of a state that m decides, and whether it is
// allowed. All stores go through it.
func (c Charge) Apply(m algo.Machine, s algo.State, now algo.Instant) (algo.State, bool) {
	if c.Spend {
		return m.Spend(s, now, c.Cost), true
	}
	return m.Take(s, now, c.Cost)
}

// validate reports the first charge that cannot be decided. charges are those of
// one subject.
func validate(charges []Charge) error {
	if len(charges) > MaxCharges {
		return fmt.Errorf("%w: %d limits on one subject, at most %d", ErrInvalidCharge, len(charges), MaxCharges)
	}
	for i, c := range charges {
		switch {
		case c.Limit == nil || c.Limit.machine == nil:
			return fmt.Errorf("%w: a limit that NewLimit did not make", ErrInvalidCharge)
		case c.Subject == Subject{}:
			return fmt.Errorf("%w: limit %q without a subject", ErrInvalidCharge, c.Limit.Name)
		case c.Cost < 0:
			return fmt.Errorf("%w: cost %d on limit %q, must not be negative", ErrInvalidCharge, c.Cost, c.Limit.Name)
		}
		for _, other := range charges[:i] {
			if other.Limit.ID == c.Limit.ID {
				return fmt.Errorf("%w: limit %q charged twice", ErrInvalidCharge, c.Limit.Name)
			}
		}
	}
	return nil
}
