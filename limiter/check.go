package limiter

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

var lastInstant = time.Unix(0, math.MaxInt64-int64(4*algo.MaxWindow))

// check returns an error for the first charge that cannot be decided.
func (l *Limiter) check(now time.Time, charges []Charge) error {
	if now.Unix() <= 0 || now.After(lastInstant) {
		return fmt.Errorf("%w: instant %s: want 1970 to 2262", ErrInvalidCharge, now)
	}
	for i, c := range charges {
		switch {
		case c.Limit == nil || c.Limit.machine == nil:
			return fmt.Errorf("%w: limit %d of the charges: make it with NewLimit", ErrInvalidCharge, i+1)
		case c.Subject == Subject{}:
			return fmt.Errorf("%w: limit %q: no subject", ErrInvalidCharge, c.Limit.Name)
		case c.Cost < 0:
			return fmt.Errorf("%w: limit %q: cost is negative (got %d, want 0 or more)", ErrInvalidCharge, c.Limit.Name, c.Cost)
		case c.Force && c.Limit.Spread.Shards > 0:
			return fmt.Errorf("%w: limit %q: a forced charge on a limit with shards (one shard cannot bear the debt of all)", ErrInvalidCharge, c.Limit.Name)
		case c.Limit.Spread.Cells > 0 && l.cells == nil:
			return fmt.Errorf("%w: limit %q: counted in cells; set Options.Cells", ErrInvalidCharge, c.Limit.Name)
		}
		for _, other := range charges[:i] {
			if other.Limit.ID == c.Limit.ID && other.Subject == c.Subject && other.Limit.Shadow == c.Limit.Shadow {
				return fmt.Errorf("%w: limit %q: charged twice", ErrInvalidCharge, c.Limit.Name)
			}
		}
	}
	return nil
}
