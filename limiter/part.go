package limiter

import (
	"fmt"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
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

// arrange makes parts of the items that no account has decided: one part per subject.
func (r *request) arrange() error {
	for i := range r.items {
		first := &r.items[i]
		if first.done || r.arranged(i) {
			continue
		}
		from := len(r.grouped)
		r.grouped = append(r.grouped, *first)
		for j := i + 1; j < len(r.items) && !first.sharded; j++ {
			if it := &r.items[j]; !it.done && it.with(first) {
				r.grouped = append(r.grouped, *it)
			}
		}
		if n := len(r.grouped) - from; n > MaxCharges {
			return fmt.Errorf("%w: too many limits on one subject (got %d, want at most %d)", ErrInvalidCharge, n, MaxCharges)
		}
		r.parts = append(r.parts, part{from: from, to: len(r.grouped)})
	}
	r.fill()
	return nil
}

// fill gives the parts their store, and their share of the request's slices.
func (r *request) fill() {
	l := r.limiter
	for i := range r.grouped {
		r.charges = append(r.charges, r.grouped[i].Charge)
	}
	r.results = slices.Grow(r.results, len(r.charges))[:len(r.charges)]
	clear(r.results)
	for i := range r.parts {
		p := &r.parts[i]
		p.items, p.charges, p.results = r.grouped[p.from:p.to], r.charges[p.from:p.to:p.to], r.results[p.from:p.to:p.to]
		p.store, p.remote = l.store, l.shares()
		if r.unsynced != nil && p.has(r.unsynced) {
			p.err = r.unasked
		}
		if p.items[0].cells {
			p.store, p.remote = l.cells, false
		}
	}
}

// arranged reports whether item i belongs to the part of an earlier item.
func (r *request) arranged(i int) bool {
	for j := range i {
		if before := &r.items[j]; !before.done && r.items[i].with(before) {
			return true
		}
	}
	return false
}

// with reports whether a store charges i and j in one step.
func (i *item) with(j *item) bool {
	return i.Subject == j.Subject && i.cells == j.cells && !i.sharded && !j.sharded
}
