package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// request is one decision in the making. Its slices are reused.
type request struct {
	at      time.Time
	now     algo.Instant
	look    bool // charge nothing
	receipt bool // what is charged may be given back

	items   []item // as they come
	kept    []kept // decided by accounts of this environment
	grouped []item // for stores, by subject, in order of first appearance
	charges []Charge
	results []algo.Result // one per charge
	parts   []part

	asks      []*account // which this request has to tell what the store answered
	overshoot int64
	stored    time.Duration // waited for a shared store
	refunds   Refunds
	clamped   int
	calls     int      // of a shared store, but for those of parts
	failure   error    // of the store of a counter that decided by itself
	failed    bool     // denied, because a store failed
	full      bool     // and there was no room to count the caller here
	waited    *account // whose answer another request was asked for
	unsynced  *item    // one whose account could not ask the store, and must not decide
	unasked   error    // why it could not

	ctx    context.Context // with the deadline, once there is one
	cancel context.CancelFunc
}

// item is one charge of a request: as the store gets it, and as it was asked for.
type item struct {
	Charge
	limit   *Limit        // as asked for; a part of a spread limit has one of its own
	want    int64         // what is asked for; a lease takes more, a look nothing
	hold    time.Duration // refused for as long, whatever its state foresees
	cells   bool          // counted in Options.Cells
	sharded bool
	done    bool // by an account

	lease  *account // that the charge renews
	size   int64    // of the new lease
	serial int64    // of the lease, once it is renewed
	spare  int64    // what it holds beyond this request
}

// begin prepares r for a decision of charges.
func (r *request) begin(now time.Time, charges []Charge, local bool) {
	*r = request{at: now, now: algo.InstantOf(now), look: r.look, items: r.items[:0], kept: r.kept[:0],
		grouped: r.grouped[:0], charges: r.charges[:0], results: r.results[:0], parts: r.parts[:0], asks: r.asks[:0]}
	for _, c := range charges {
		it := item{Charge: c, limit: c.Limit, want: c.Cost}
		if c.Limit.Shadow {
			it.Subject = c.Limit.counted(c.Subject)
		}
		if r.look {
			it.Cost = 0
		}
		switch {
		case c.Limit.Spread.Cells > 0:
			it.cells, it.Limit = true, c.Limit.parts[0]
		case c.Limit.Spread.Shards > 0 && !local:
			it.sharded = true
		}
		r.items = append(r.items, it)
	}
}

// arrange groups by subject what no account has decided.
func (r *request) arrange(l *Limiter) error {
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
			return fmt.Errorf("%w: %d limits on one subject, at most %d", ErrInvalidCharge, n, MaxCharges)
		}
		r.parts = append(r.parts, part{from: from, to: len(r.grouped)})
	}
	for i := range r.grouped {
		r.charges = append(r.charges, r.grouped[i].Charge)
	}
	r.results = slices.Grow(r.results, len(r.charges))[:len(r.charges)]
	clear(r.results)
	for i := range r.parts {
		p := &r.parts[i]
		p.items, p.charges, p.results = r.grouped[p.from:p.to], r.charges[p.from:p.to:p.to], r.results[p.from:p.to:p.to]
		p.store, p.remote = l.store, l.memory != nil
		if r.unsynced != nil && p.has(r.unsynced) {
			p.err = r.unasked
		}
		if p.items[0].cells {
			p.store, p.remote = l.cells, false
		}
	}
	return nil
}

// arranged reports whether item i belongs to a part of one before it.
func (r *request) arranged(i int) bool {
	for j := range i {
		if before := &r.items[j]; !before.done && r.items[i].with(before) {
			return true
		}
	}
	return false
}

// with reports whether a store takes i and j in one step.
func (i *item) with(j *item) bool {
	return i.Subject == j.Subject && i.cells == j.cells && !i.sharded && !j.sharded
}

// decided reports whether the item's own parameters read r.
func (i *item) decided(r algo.Result) bool {
	return r.Machine == i.Limit.machine || r.Machine.Fingerprint() == i.Limit.fingerprint
}

// refused reports whether any limit that is enforced refuses, or has a subject that is busy.
func (r *request) refused() bool {
	for i := range r.parts {
		if p := &r.parts[i]; (p.refused || busy(p.err)) && !p.shadow() {
			return true
		}
	}
	for i := range r.kept {
		if k := &r.kept[i]; !k.allowed && !k.item.limit.Shadow {
			return true
		}
	}
	return false
}

// mended returns of how many charges the store had to mend the state; a look mends nothing.
func clamped(charges []Charge, results []algo.Result) (n int) {
	for i := range results {
		if results[i].Clamped && charges[i].Cost > 0 {
			n++
		}
	}
	return n
}

// decision folds the parts of charges: any refusal wins, then the failure of a store.
// remembered says that nothing was taken, because this environment knew a refusal.
func (r *request) decision(charges []Charge, remembered bool) Decision {
	d := Decision{Allowed: !r.failed && !r.refused(), Failed: r.failed, LocalFull: r.full, At: r.at, Charges: charges, Overshoot: r.overshoot,
		StoreCalls: r.calls, StoreTime: r.stored, Refunds: r.refunds, Clamped: r.clamped}
	if r.failure != nil && !busy(r.failure) { // a counter of a busy subject decides as ever
		d.Reason = reasonOf(r.failure)
	}
	pressed := false
	for i := range r.parts {
		p := &r.parts[i]
		d.StoreCalls += p.calls
		d.Clamped += clamped(p.charges, p.results)
		if p.shadow() {
			if p.refused && d.Shadowed == nil {
				d.Shadowed = p.refuser(r.now)
			}
			continue
		}
		if p.err != nil {
			if busy(p.err) {
				pressed = true
			} else if d.Reason == ReasonNone {
				d.Reason = reasonOf(p.err)
			}
			if !p.refused {
				continue
			}
		}
		if p.refused == d.Allowed {
			continue
		}
		for j := range p.items {
			if p.results[j].Machine != nil {
				d.speak(&p.items[j], p.results[j], r.now)
			}
		}
	}
	for i := range r.kept {
		switch k := &r.kept[i]; {
		case !k.item.limit.Shadow && k.allowed == d.Allowed:
			d.speak(k.item, k.result, r.now)
		case k.item.limit.Shadow && !k.allowed && d.Shadowed == nil:
			d.Shadowed = k.item.limit
		}
	}
	if d.RetryAfter == algo.Never {
		d.RetryAfter = 0
	}
	if pressed && d.Limit == nil {
		d.Reason = ReasonBusy
	}
	d.FromCache = remembered && d.StoreCalls == 0
	return d
}
