package dynamostore

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// settlement corrects charges of one subject in one update: it makes refunds and forced charges.
type settlement struct {
	charges []limiter.Charge
	refund  *refund
	forced  *take
}

func newSettlement(now algo.Instant, charges []limiter.Charge, results []algo.Result, late time.Duration, g *guesses) *settlement {
	s := &settlement{charges: charges, refund: &refund{late: late}}
	var forced []limiter.Charge
	for i, c := range charges {
		if c.Force {
			forced = append(forced, c)
		} else {
			s.refund.charges, s.refund.results = append(s.refund.charges, c), append(s.refund.results, results[i])
		}
	}
	s.forced = newTake(now, forced, make([]algo.Result, len(forced)), g)
	return s
}

// needsItem reports whether the settlement must read the item first: a forced charge exceeds the max debt,
// or a refund needs more than the known state.
func (s *settlement) needsItem() bool {
	return len(s.forced.charges) > 0 && s.forced.hopeless() || slices.ContainsFunc(s.refund.results, func(r algo.Result) bool {
		return r.Machine != nil && layoutOf(r.Machine).unknown(r.State)
	})
}

func (s *settlement) attempts() int {
	if len(s.forced.charges) == 0 {
		return refundAttempts
	}
	return s.forced.attempts()
}

// attempt returns the update. It is empty if nothing is forced and no refund is safe.
func (s *settlement) attempt() *expression {
	e := newExpression()
	if len(s.forced.charges) > 0 {
		e = s.forced.attempt()
	}
	s.refund.attempt(e)
	return e
}

// learn updates the settlement from the current item.
func (s *settlement) learn(item item) error {
	if err := s.refund.learn(item); err != nil {
		return err
	}
	return s.forced.learn(item)
}

// settled returns the result of an attempt that was applied. An attempt without a known item has no
// excess, because its condition excludes one.
func (s *settlement) settled() limiter.Settled {
	result, n := limiter.Settled{Given: s.refund.given}, 0
	for i, c := range s.charges {
		if !c.Force {
			continue
		}
		if v := &s.forced.views[n]; s.forced.exact {
			result.Excess[i] = v.current.Machine.Excess(v.current.State, s.forced.now, c.Cost)
		}
		n++
	}
	return result
}
