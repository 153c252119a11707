package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// batch has the charges of a request on one subject. A store takes all of them in one atomic step.
type batch struct {
	from, to   int // first and last index of b in the slices of the request
	store      Store
	items      []item
	charges    []Charge
	results    []algo.Result
	remote     bool // the store is shared, so the denial cache keeps its states
	calls      int  // calls of a shared store
	taken      bool
	refused    bool
	dropLeases bool // settle does not use the new leases
	skipped    bool // a shadow limit in its back-off: it is not charged
	err        error
}

// shadow reports whether the limits of b are shadow limits, which refuse nothing. Shadow limits count on
// separate subjects. Therefore, all limits of a batch are shadow limits, or none is.
func (b *batch) shadow() bool { return b.items[0].limit.Shadow }

// has reports whether b has an item for the limit and subject of i.
func (b *batch) has(i *item) bool {
	return slices.ContainsFunc(b.items, func(it item) bool { return it.limit == i.limit && it.Subject == i.Subject })
}

// refuser returns the first limit of b that refuses; nil if none does.
func (b *batch) refuser(now algo.Instant) *Limit {
	for i := range b.items {
		if b.refuses(i, now) {
			return b.items[i].limit
		}
	}
	return nil
}

// refuses reports whether the known state or the back-off of item i refuses it.
func (b *batch) refuses(i int, now algo.Instant) bool {
	it, r := &b.items[i], b.results[i]
	return it.backOff > 0 || !it.Force && r.Machine != nil && r.RetryAfter(now, it.want) > 0
}

// exhausted reports whether a known state refuses, without regard to back-offs.
func (b *batch) exhausted(now algo.Instant) bool {
	for i := range b.items {
		if r := b.results[i]; r.Machine != nil && r.RetryAfter(now, b.items[i].want) > 0 {
			return true
		}
	}
	return false
}

// forces reports whether b has a forced charge.
func (b *batch) forces() bool {
	return slices.ContainsFunc(b.charges, func(c Charge) bool { return c.Force })
}

// concurrent reports whether b takes slots. Such a batch does not share a call with other requests: a
// store identifies the slots of one call together, but each request releases only its own.
func (b *batch) concurrent() bool {
	return slices.ContainsFunc(b.charges, func(c Charge) bool { return c.Limit.concurrent() && c.Cost > 0 })
}

// sizeLeases sets the cost of each charge that renews a lease to the size of the lease.
func (b *batch) sizeLeases(now algo.Instant) {
	for i := range b.items {
		it := &b.items[i]
		if it.lease == nil {
			continue
		}
		size := it.want
		if hint := b.results[i]; hint.Machine != nil { // near the limit, a smaller lease leaves quota for other processes
			size = min(it.leaseSize, max(it.want, hint.Remaining(now)/2))
		}
		b.charges[i].Cost = size
	}
}

// shrinkLeases reduces leases to the cost of the request. It reports whether a second call can succeed: a
// lease was larger than the request, and the known state has room for the request.
func (b *batch) shrinkLeases(now algo.Instant) bool {
	shrunk := false
	for i := range b.items {
		if it := &b.items[i]; b.charges[i].Cost > it.want {
			b.charges[i].Cost, shrunk = it.want, true
		}
		if b.refuses(i, now) {
			return false
		}
	}
	return shrunk
}

// giveUpLeases reduces leases to the cost of the request.
func (b *batch) giveUpLeases() {
	for i := range b.items {
		b.charges[i].Cost = min(b.charges[i].Cost, b.items[i].want)
	}
}

// lookUp fills the results and back-offs of b from the denial cache, and reports whether the cache
// denies b.
func (b *batch) lookUp(now algo.Instant, d denials) (denies bool) {
	var backOffs [MaxCharges]time.Duration
	denies = d.lookup(now, b.charges[0].Subject, b.charges, b.results, backOffs[:len(b.charges)])
	for i := range b.items {
		b.items[i].backOff = backOffs[i]
	}
	return denies
}

func (b *batch) subject() string { return b.charges[0].Subject.String() }

func (b *batch) keys() []local.Charge { return keys(nil, b.charges) }
