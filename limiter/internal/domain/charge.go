package domain

import (
	"fmt"
	"math"
	"time"

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

// TakeAll makes all charges on results, the states of their limits, or none. It reports which (see algo.TakeAll).
func TakeAll(now algo.Instant, charges []Charge, results []algo.Result) bool {
	return algo.TakeAll(now, results[:len(charges)], func(i int) (int64, bool) { return charges[i].Cost, charges[i].Force })
}

// Apply charges c to a state of m. It returns the next state, and whether c is allowed.
func (c Charge) Apply(m algo.Machine, s algo.State, now algo.Instant) (algo.State, bool) {
	r := algo.Result{Machine: m, State: s}
	allowed := r.Take(now, c.Cost, c.Force)
	return r.State, allowed
}

// lastSecond is the Unix second before which the instant of a request MUST lie.
const lastSecond = (math.MaxInt64 - int64(4*algo.MaxPeriod)) / int64(time.Second)

// Check returns an error if a charge is invalid, or charges the same count as another. home is as in CheckEach.
func Check(now time.Time, charges []Charge, home *algo.Regions) error {
	if err := CheckEach(now, charges, home); err != nil {
		return err
	}
	for i, c := range charges {
		for _, other := range charges[:i] {
			if other.Limit.ID == c.Limit.ID && other.Subject == c.Subject && other.Limit.Shadow == c.Limit.Shadow {
				return fmt.Errorf("%w: limit %q: charged twice on one subject; add the costs to one charge", ErrInvalidCharge, c.Limit.Name)
			}
		}
	}
	return nil
}

// CheckEach returns an error for the first charge that is invalid by itself. home is the place of this region, or the zero
// value if the Limiter knows no others. It is nil if the store cannot move share between regions.
func CheckEach(now time.Time, charges []Charge, home *algo.Regions) error {
	if second := now.Unix(); second <= 0 || second >= lastSecond {
		return fmt.Errorf("%w: instant: out of range (got %s, want 1970 to 2261)", ErrInvalidCharge, now)
	}
	for i, c := range charges {
		switch {
		case c.Limit == nil || c.Limit.machine == nil:
			return fmt.Errorf("%w: charge %d: limit: missing, or not made by NewLimit; make it with NewLimit", ErrInvalidCharge, i+1)
		case c.Subject == Subject{}:
			return fmt.Errorf("%w: limit %q: subject: required", ErrInvalidCharge, c.Limit.Name)
		case c.Cost < 0:
			return fmt.Errorf("%w: limit %q: cost: negative (got %d, want 0 or more)", ErrInvalidCharge, c.Limit.Name, c.Cost)
		case c.Force && c.Limit.Spread.Shards > 0:
			return fmt.Errorf("%w: limit %q: forced charge on a limit with shards; remove the shards or Force", ErrInvalidCharge, c.Limit.Name)
		case c.Limit.regions != nil && home == nil:
			return fmt.Errorf("%w: limit %q: shared by regions, but the store cannot move share between them; use one in DynamoDB", ErrInvalidCharge,
				c.Limit.Name)
		case c.Limit.regions != nil && home.Of > 0 && (c.Limit.Rate.Regions.Of != home.Of || c.Limit.Rate.Regions.Place != home.Place):
			return fmt.Errorf("%w: limit %q: regions: place %d of %d, want %d of %d as in Options.Regions", ErrInvalidCharge, c.Limit.Name,
				c.Limit.Rate.Regions.Place, c.Limit.Rate.Regions.Of, home.Place, home.Of)
		case c.Limit.Concurrent() && (c.Cost > 1 || c.Force):
			return fmt.Errorf("%w: limit %q: cost of a concurrent limit (got %d, forced %t, want 0 or 1, not forced); a request takes one slot",
				ErrInvalidCharge, c.Limit.Name, c.Cost, c.Force)
		}
	}
	return nil
}
