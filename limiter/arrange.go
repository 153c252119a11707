package limiter

import (
	"cmp"
	"fmt"
	"slices"
)

// arrange groups the tasks that no tracker has decided into batches: one batch per subject.
func (r *request) arrange() error {
	for i := range r.tasks {
		first := &r.tasks[i]
		if first.done || r.arranged(i) {
			continue
		}
		from := len(r.grouped)
		r.grouped = append(r.grouped, *first)
		for j := i + 1; j < len(r.tasks) && !first.sharded; j++ {
			if it := &r.tasks[j]; !it.done && it.with(first) {
				r.grouped = append(r.grouped, *it)
			}
		}
		n := len(r.grouped) - from
		for _, it := range r.grouped[from:] {
			n += len(it.Limit.Tiers)
		}
		if n > MaxCharges {
			return fmt.Errorf("%w: too many limits on one subject (got %d, want at most %d)", ErrInvalidCharge, n, MaxCharges)
		}
		r.batches = append(r.batches, batch{from: from, to: len(r.grouped)})
	}
	r.fill()
	return nil
}

// fill sets the store of each batch, and the part of the request's slices that belongs to the batch.
func (r *request) fill() {
	l := r.limiter
	for i := range r.grouped {
		r.charges = append(r.charges, r.grouped[i].Charge)
	}
	r.results = slices.Grow(r.results, len(r.charges))[:len(r.charges)]
	clear(r.results)
	for i := range r.batches {
		b := &r.batches[i]
		b.tasks, b.charges, b.results = r.grouped[b.from:b.to], r.charges[b.from:b.to:b.to], r.results[b.from:b.to:b.to]
		b.store, b.remote = l.store, l.sharesStore()
		for j := range b.tasks {
			b.err = cmp.Or(b.err, b.tasks[j].unsynced)
		}
	}
}

// arranged reports whether task i belongs to the batch of an earlier task.
func (r *request) arranged(i int) bool {
	for j := range i {
		if before := &r.tasks[j]; !before.done && r.tasks[i].with(before) {
			return true
		}
	}
	return false
}
