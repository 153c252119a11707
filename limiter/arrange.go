package limiter

import (
	"fmt"
	"slices"
)

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
