package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// part is the charges of a request on one subject. They are one atomic step of a store.
type part struct {
	from, to int // in the request's slices
	store    Store
	items    []item
	charges  []Charge
	results  []algo.Result
	remote   bool // a shared store: the denial cache keeps what it returns
	calls    int  // of a remote store
	taken    bool
	refused  bool
	lost     bool // leases are not handed over
	skipped  bool // a shadow limit that is backed off: neither charged nor counted
	err      error
}

// shadow reports whether the part has shadow limits, which refuse nothing. They have subjects of
// their own.
func (p *part) shadow() bool { return p.items[0].limit.Shadow }

// has reports whether p has an item for the limit and subject of i.
func (p *part) has(i *item) bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.limit == i.limit && it.Subject == i.Subject })
}

// refuser returns the first limit of a part that refuses.
func (p *part) refuser(now algo.Instant) *Limit {
	for i := range p.items {
		if p.refuses(i, now) {
			return p.items[i].limit
		}
	}
	return nil
}

// refuses reports whether item i is refused by its known state or by its back-off.
func (p *part) refuses(i int, now algo.Instant) bool {
	it, r := &p.items[i], p.results[i]
	return it.hold > 0 || !it.Force && r.Machine != nil && r.RetryAfter(now, it.want) > 0
}

// full reports whether a known state refuses, regardless of the back-off.
func (p *part) full(now algo.Instant) bool {
	for i := range p.items {
		if r := p.results[i]; r.Machine != nil && r.RetryAfter(now, p.items[i].want) > 0 {
			return true
		}
	}
	return false
}

// forces reports whether p has a forced charge.
func (p *part) forces() bool {
	return slices.ContainsFunc(p.charges, func(c Charge) bool { return c.Force })
}

// size sets the cost of charges that renew a lease to the size of the lease.
func (p *part) size(now algo.Instant) {
	for i := range p.items {
		it := &p.items[i]
		if it.lease == nil {
			continue
		}
		size := it.want
		if hint := p.results[i]; hint.Machine != nil { // near the limit, leave some to other processes
			size = min(it.size, max(it.want, hint.Remaining(now)/2))
		}
		p.charges[i].Cost = size
	}
}

// shrink reduces leases to the cost of the request. It reports whether any was larger, and the
// known state has room for the request.
func (p *part) shrink(now algo.Instant) bool {
	shrunk := false
	for i := range p.items {
		if it := &p.items[i]; p.charges[i].Cost > it.want {
			p.charges[i].Cost, shrunk = it.want, true
		}
		if p.refuses(i, now) {
			return false
		}
	}
	return shrunk
}

// unlease reduces leases to the cost of the request.
func (p *part) unlease() {
	for i := range p.items {
		p.charges[i].Cost = min(p.charges[i].Cost, p.items[i].want)
	}
}

// recall fills the results and back-offs of p with what the denial cache knows. It reports whether the
// cache denies p.
func (p *part) recall(now algo.Instant, d denials) (denies bool) {
	var holds [MaxCharges]time.Duration
	denies = d.recall(now, p.charges[0].Subject, p.charges, p.results, holds[:len(p.charges)])
	for i := range p.items {
		p.items[i].hold = holds[i]
	}
	return denies
}

func (p *part) subject() string { return p.charges[0].Subject.name }

func (p *part) keys() []local.Charge { return keys(nil, p.charges) }
