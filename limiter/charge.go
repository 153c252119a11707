package limiter

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Charge is a cost put on one limit of a subject. A cost of 0 charges nothing: it
// looks.
type Charge struct {
	Subject Subject
	Limit   *Limit
	Cost    int64
	// Force charges even past the limit, into a debt of at most one capacity. It is for
	// costs that are known afterwards. A limit with shards cannot be spent on.
	Force bool
}

// Apply returns what the charge makes of a state that m decides, and whether it is
// allowed. All stores go through it.
func (c Charge) Apply(m algo.Machine, s algo.State, now algo.Instant) (algo.State, bool) {
	if c.Force {
		return m.Force(s, now, c.Cost), true
	}
	return m.Take(s, now, c.Cost)
}

var lastInstant = time.Unix(0, math.MaxInt64-int64(4*algo.MaxWindow))

// validate reports the first charge that cannot be decided, and whether any is on a
// limit that is spread.
func (l *Limiter) validate(now time.Time, charges []Charge) (spread bool, err error) {
	if now.Unix() <= 0 || now.After(lastInstant) {
		return false, fmt.Errorf("%w: at %s, want an instant from 1970 to 2262", ErrInvalidCharge, now)
	}
	for i, c := range charges {
		switch {
		case c.Limit == nil || c.Limit.machine == nil:
			return false, fmt.Errorf("%w: a limit that NewLimit did not make", ErrInvalidCharge)
		case c.Subject == Subject{}:
			return false, fmt.Errorf("%w: limit %q without a subject", ErrInvalidCharge, c.Limit.Name)
		case c.Cost < 0:
			return false, fmt.Errorf("%w: cost %d on limit %q, must not be negative", ErrInvalidCharge, c.Cost, c.Limit.Name)
		case c.Force && c.Limit.Spread.Shards > 0:
			return false, fmt.Errorf("%w: limit %q has shards, none of which can bear the debt of all", ErrInvalidCharge, c.Limit.Name)
		case c.Limit.Spread.Cells > 0 && l.cells == nil:
			return false, fmt.Errorf("%w: limit %q counts in cells, and Options.Cells is nil", ErrInvalidCharge, c.Limit.Name)
		}
		spread = spread || c.Limit.Spread != Spread{}
		for _, other := range charges[:i] {
			if other.Limit.ID == c.Limit.ID && other.Subject == c.Subject && other.Limit.Shadow == c.Limit.Shadow {
				return false, fmt.Errorf("%w: limit %q charged twice", ErrInvalidCharge, c.Limit.Name)
			}
		}
	}
	return spread, nil
}
