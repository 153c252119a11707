package dynamostore

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// refund is an update that gives back charges of one subject. The first attempt assumes that nothing has changed
// since the charges. Each later attempt uses the item that failed the condition of the attempt before.
type refund struct {
	charges []limiter.Charge
	results []algo.Result
	late    time.Duration
	item    item           // the item that failed the condition of the last attempt
	seen    []limiter.Held // the states in that item; nil in the first attempt
	given   int            // number of charges that the attempt refunds
}

func (r *refund) learn(item item) error {
	r.item, r.seen = item, make([]limiter.Held, len(r.charges))
	for i, c := range r.charges {
		held, err := item.held(c.Limit.ID.String(), c.Limit)
		if err != nil {
			return err
		}
		r.seen[i] = held
	}
	return nil
}

// attempt adds the safe refunds to an update.
func (r *refund) attempt(e *expression) {
	r.given = 0
	for i, c := range r.charges {
		charged := r.results[i]
		if c.Cost == 0 || charged.Machine == nil || r.seen != nil && !algo.Refundable(r.seen[i].Machine, charged.Machine) {
			continue
		}
		layoutOf(charged.Machine).refund(r, e, i)
	}
}

// requireMachine adds the condition that the limit id still has the parameters of m.
func (e *expression) requireMachine(id string, m algo.Machine) {
	e.require(e.compare(attribute(fingerprintAttribute, id), "=", e.text(m.Fingerprint())))
}
