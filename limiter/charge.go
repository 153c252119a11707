package limiter

import "fmt"

// Charge is a cost put on one limit of a subject. A cost of 0 charges nothing: it
// looks.
type Charge struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
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
