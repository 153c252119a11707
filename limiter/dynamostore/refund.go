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

func (r *refund) learn(it item) error {
	r.item, r.seen = it, make([]limiter.Held, len(r.charges))
	for i, c := range r.charges {
		held, err := it.held(c.Limit.ID.String(), c.Limit)
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
		if c.Cost == 0 || r.seen != nil && !algo.Refundable(r.seen[i].Machine, charged.Machine) {
			continue
		}
		switch m := charged.Machine.(type) {
		case *algo.Bucket:
			r.giveBackBucket(e, m, i)
		case *algo.Window:
			r.giveBackWindow(e, i)
		case *algo.Log:
			r.giveBackLog(e, m, i)
		case *algo.Slots:
			r.giveBackSlots(e, i)
		}
	}
}

// giveBackBucket adds the refund of a bucket. If the bucket is unchanged, it refunds the whole charge.
// If the bucket changed, it refunds the part that is safe for any bucket.
func (r *refund) giveBackBucket(e *expression, b *algo.Bucket, i int) {
	id, cost, charged := r.charges[i].Limit.ID.String(), r.charges[i].Cost, r.results[i].State
	tat, refunds := attribute(tatAttribute, id), attribute(refundsAttribute, id)
	if r.seen == nil || b.Untouched(r.seen[i].State, charged) {
		e.requireMachine(id, b)
		e.require(e.compare(tat, "=", e.number(int64(charged.TAT))))
		if charged.Refunds == 0 {
			e.require(e.absentOr(refunds, "=", e.number(0)))
		} else {
			e.require(e.compare(refunds, "=", e.number(charged.Refunds)))
		}
		e.setTo(tat, e.number(int64(charged.TAT.Add(-b.Increment(cost)))))
		e.setTo(refunds, e.number(charged.Refunds+1))
		r.given++
		return
	}
	if back := b.Refundable(cost, r.late); back > 0 {
		e.requireMachine(id, b)
		e.setTo(tat, e.name(tat)+" - "+e.number(int64(back)))
		e.setTo(refunds, "if_not_exists("+e.name(refunds)+", "+e.number(0)+") + "+e.number(1))
		r.given++
	}
}

// giveBackWindow adds the refund of a window to the window that was charged.
func (r *refund) giveBackWindow(e *expression, i int) {
	id, cost, charged := r.charges[i].Limit.ID.String(), r.charges[i].Cost, r.results[i].State
	if r.seen != nil {
		if s := r.seen[i].State; s.Window == charged.Window && s.Count < cost ||
			s.Window == charged.Window+1 && s.Previous < cost ||
			s.Window < charged.Window || s.Window > charged.Window+1 {
			return
		}
	}
	newest, counted := attribute(newestAttribute, id), count(id, charged.Window)
	e.requireMachine(id, r.results[i].Machine)
	e.require("(" + e.compare(newest, "=", e.number(charged.Window)) + " OR " + e.compare(newest, "=", e.number(charged.Window+1)) + ")")
	e.require(e.compare(counted, ">=", e.number(cost)))
	e.setTo(counted, e.name(counted)+" - "+e.number(cost))
	r.given++
}

// requireMachine adds the condition that the limit id still has the parameters of m.
func (e *expression) requireMachine(id string, m algo.Machine) {
	e.require(e.compare(attribute(fingerprintAttribute, id), "=", e.text(m.Fingerprint())))
}
