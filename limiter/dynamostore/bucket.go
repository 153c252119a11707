package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// bucketLayout is the layout of a bucket: its TAT, and the number of its refunds.
type bucketLayout struct{ plain }

// size implements layout. A process can reduce the burst of a leaky bucket, so the size allows for the largest burst.
func (bucketLayout) size(r algo.Rate, m algo.Machine) (fixed, instants int) {
	fixed = instantBytes + refundsBytes
	if r.Algorithm.Queues() {
		fixed += digits(algo.MaxRequests) - digits(m.Capacity())
	}
	return fixed, 0
}

func (bucketLayout) read(item item, id string) (algo.State, error) {
	r := reader{item: item}
	s := algo.State{TAT: algo.Instant(r.number(attribute(tatAttribute, id))), Refunds: r.number(attribute(refundsAttribute, id))}
	return s, r.err
}

func (bucketLayout) write(_ item, id string, s algo.State, _ algo.Instant) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attribute(tatAttribute, id):     number(int64(s.TAT)),
		attribute(refundsAttribute, id): number(s.Refunds),
	}
}

// busy reports whether h is a bucket whose TAT is after now. known is false if it is no bucket.
func busy(h limiter.Held, now algo.Instant) (busy, known bool) {
	_, known = h.Machine.(*algo.Bucket)
	return known && h.State.TAT > now, known
}

// charge implements layout. A bucket is known, or guessed, to be busy or idle. The charge of a busy bucket is added to
// its TAT, and the charge of an idle bucket to now.
func (bucketLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	b := v.current.Machine.(*algo.Bucket)
	tat, increment := attribute(tatAttribute, v.id), b.Increment(c.Cost)
	latest := b.Latest(t.now, c.Cost)
	if c.Force {
		latest = b.MaxDebt(t.now).Add(-increment)
	}
	switch {
	case c.Cost == 0:
		e.require(e.absentOr(tat, "<=", e.number(int64(latest))))
	case v.current.State.TAT > t.now, !t.exact && v.busy:
		e.require(e.compare(tat, ">", e.number(int64(t.now))))
		e.require(e.compare(tat, "<=", e.number(int64(latest))))
		e.setTo(tat, e.name(tat)+" + "+e.number(int64(increment)))
	default:
		e.require(e.absentOr(tat, "<=", e.number(int64(t.now))))
		e.setTo(tat, e.number(int64(t.now.Add(increment))))
	}
}

func (bucketLayout) exceeds(t *take, v *view, c limiter.Charge) bool {
	b := v.current.Machine.(*algo.Bucket)
	return c.Force && (c.Cost > 2*b.Burst || max(v.current.State.TAT, t.now).Add(b.Increment(c.Cost)) > b.MaxDebt(t.now))
}

// refund implements layout. If the bucket is unchanged, it refunds the whole charge. If the bucket changed, it refunds
// the part that is safe for any bucket.
func (bucketLayout) refund(r *refund, e *expression, i int) {
	b := r.results[i].Machine.(*algo.Bucket)
	id, cost, charged := r.charges[i].Limit.ID.String(), r.charges[i].Cost, r.results[i].State
	tat, refunds := attribute(tatAttribute, id), attribute(refundsAttribute, id)
	if r.seen == nil || b.Untouched(r.seen[i].State, charged) {
		e.requireMachine(id, b)
		e.require(e.compare(tat, "=", e.number(int64(charged.TAT))))
		e.requireNumber(refunds, charged.Refunds)
		e.setTo(tat, e.number(int64(charged.TAT.Add(-b.Increment(cost)))))
		e.setTo(refunds, e.number(charged.Refunds+1))
		r.given++
		return
	}
	if back := b.Refundable(cost, r.late); back > 0 {
		e.requireMachine(id, b)
		e.setTo(tat, e.name(tat)+" - "+e.number(int64(back)))
		e.add(refunds, 1)
		r.given++
	}
}
