package storetest

import (
	"slices"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// releases counts, for each charge, the slots that a store has released.
type releases map[slotsOf]int64

// slotsOf identifies the slots of one charge in a store that numbers them.
type slotsOf struct {
	limit  limiter.ID
	number int64
}

// numbered returns the slots of a refund. It reports false for other corrections, and for a store that
// identifies slots by their instant, as the model does.
func numbered(c limiter.Charge, of algo.Result) (slotsOf, bool) {
	_, slots := of.Machine.(*algo.Slots)
	return slotsOf{c.Limit.ID, of.State.Refunds}, slots && !c.Force && of.State.Refunds != 0
}

// left returns the charges without the slots that the store has released before. A store with numbered slots
// releases each slot once.
func (r releases) left(charges []limiter.Charge, results []algo.Result) []limiter.Charge {
	left := slices.Clone(charges)
	for i, c := range charges {
		if of, ok := numbered(c, results[i]); ok {
			left[i].Cost = max(0, c.Cost-r[of])
		}
	}
	return left
}

// add records that the store has released the slots of the charges.
func (r releases) add(charges []limiter.Charge, results []algo.Result) {
	for i, c := range charges {
		if of, ok := numbered(c, results[i]); ok {
			r[of] = max(r[of], c.Cost)
		}
	}
}
