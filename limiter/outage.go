package limiter

import (
	"errors"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/local"
)

// fallBack applies OnError to parts whose store failed. While this process counts charges of an
// outage, fallBack then also charges it with what the stores admitted.
func (r *request) fallBack() {
	if !r.denied() {
		r.degrade()
	}
	if !r.denied() {
		r.mirror()
	}
}

// degrade applies the strictest OnError of the limits whose store failed.
func (r *request) degrade() {
	strictest := OnErrorAllow
	for i := range r.parts {
		if p := &r.parts[i]; p.failed() {
			for j := range p.items {
				strictest = max(strictest, p.items[j].limit.OnError)
			}
		}
	}
	switch strictest {
	case OnErrorAllow:
	case OnErrorDeny:
		r.failed = true
	case OnErrorLocal:
		r.takeLocally()
	}
}

// failed reports whether OnError decides p.
func (p *part) failed() bool { return p.err != nil && !busy(p.err) && !p.shadow() }

// takeLocally charges this process, one subject after the other until one refuses. A subject without room
// is denied: otherwise there would be no bound.
func (r *request) takeLocally() {
	for i := range r.parts { // without those that are appended
		failed := &r.parts[i]
		if !failed.failed() {
			continue
		}
		// The store in this process is full: all of the limit here would be more than its cell.
		if !r.limiter.shares() || failed.items[0].cells && failed.items[0].limit.OnError == OnErrorLocal {
			r.failed, r.full = true, true
			return
		}
		p := failed.alone(r)
		if len(p.items) == 0 {
			continue
		}
		if p.tooLarge() { // an effect of the outage, not of the limit: the request may pass later
			r.failed = true
			return
		}
		r.takeAlone(&p)
		r.parts = append(r.parts, p)
		if p.err != nil {
			r.failed, r.full = true, errors.Is(p.err, ErrFull)
		}
		if r.denied() {
			return
		}
	}
}

// takeAlone charges p to this process. It counts at least the usage that this process has seen in
// the store.
func (r *request) takeAlone(p *part) {
	p.taken, p.err = r.limiter.fallback.take(r.now, p.charges[0].Subject, p.charges, p.results, func() { r.fillKnown(p) })
	p.refused = !p.taken && p.err == nil
	if r.look && p.err == nil {
		p.taken, p.refused = false, p.refuser(r.now) != nil
	}
}

// fillKnown fills the results of p with the known states of its limits, or of their shares.
func (r *request) fillKnown(p *part) {
	for i := range p.items {
		it := &p.items[i]
		s := r.known(it)
		if it.Limit.isShare {
			s = algo.Part(it.limit.machine, it.Limit.machine, int64(it.limit.LocalProcesses), s, r.now)
		}
		p.results[i] = algo.Result{Machine: it.Limit.machine, State: s}
	}
}

// known returns the state of an item that this process saw last, or that its counter counts, of any age,
// as its limit counts it now.
func (r *request) known(it *item) algo.State {
	l := r.limiter
	s := l.denials.last(r.now, it.Subject, it.limit)
	if it.limit.Spread.Sync > 0 {
		if c := l.accounts.counted(it.Subject, it.limit.ID); c.Machine != nil {
			s = algo.Merge(it.limit.machine, s, local.Convert(c.Machine, it.limit.machine, c.State, r.now))
		}
	}
	return s
}

// tooLarge reports whether a charge costs more than the part of this process ever allows.
func (p *part) tooLarge() bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.Limit.isShare && !it.Force && it.want > it.Limit.machine.Capacity() })
}

// alone returns the charges of p with OnErrorLocal, as this process counts them in an outage: on its part
// of each limit, and on the limit.
func (p *part) alone(r *request) part {
	q := part{store: r.limiter.fallback}
	for i := range p.items {
		it := &p.items[i]
		if it.limit.OnError != OnErrorLocal {
			continue
		}
		cost := it.want
		if r.look {
			cost = 0
		}
		if share := it.limit.share; share != nil {
			q.add(it, share, cost)
		}
		q.add(it, it.limit, cost)
	}
	return q
}

// add adds a charge on limit for an item.
func (p *part) add(it *item, limit *Limit, cost int64) {
	charge := Charge{Subject: it.Subject, Limit: limit, Cost: cost, Force: it.Force}
	p.items = append(p.items, item{Charge: charge, limit: it.limit, want: it.want, spare: max(0, cost-it.want)})
	p.charges, p.results = append(p.charges, charge), append(p.results, algo.Result{})
}

// outlive keeps the count of the item's counter, which the store may never have received: until it no
// longer counts, charges of the counter are charged to the fallback too. A share continues by itself.
func (r *request) outlive(it *item) {
	if it.limit.Shadow || it.limit.OnError != OnErrorLocal || it.limit.reports != nil {
		return
	}
	l := r.limiter
	l.fallback.Raise(r.now, it.Subject.name, it.limit.key(), func() (s algo.State, ok bool) {
		c := l.accounts.counted(it.Subject, it.limit.ID)
		if c.Machine == nil {
			return s, false
		}
		return local.Convert(c.Machine, it.limit.machine, c.State, r.now), true
	})
}

// recallOutage denies the request without a store call if the fallback still counts charges of an outage
// that refuse it. Leases become no larger than these leave room for. While the store fails, recallOutage
// does not deny, so that a call finds out when the store is back.
func (r *request) recallOutage() {
	l := r.limiter
	if !l.fallback.Holds(r.now) {
		return
	}
	for i := range r.parts {
		p := &r.parts[i]
		if !p.mirrored() || p.err != nil {
			continue
		}
		q := p.mirror(l.fallback)
		if len(q.items) == 0 || !l.fallback.Look(r.now, q.subject(), q.keys(), q.results) {
			continue
		}
		switch {
		case q.refuser(r.now) == nil:
			p.fit(&q, r.now)
		case !l.failing.Load():
			q.refused = true
			r.parts = append(r.parts, q)
			return
		}
	}
}

// mirrored reports whether charges of p on the store may be charged to the fallback too.
func (p *part) mirrored() bool { return p.remote && !p.shadow() }

// mirror returns the charges of p with OnErrorLocal, for the fallback.
func (p *part) mirror(store fallback) part {
	q := part{store: store}
	for i := range p.items {
		if it := &p.items[i]; it.limit.OnError == OnErrorLocal {
			q.add(it, it.limit, p.charges[i].Cost)
		}
	}
	return q
}

// mirrorOf returns the results of p that belong to the charges of q, its mirror.
func (p *part) mirrorOf(q *part) []algo.Result {
	results := make([]algo.Result, 0, len(q.items))
	for i := range p.items {
		if p.items[i].limit.OnError == OnErrorLocal {
			results = append(results, p.results[i])
		}
	}
	return results
}

// fit makes leases of p no larger than q, its mirror, has room for.
func (p *part) fit(q *part, now algo.Instant) {
	for i := range p.items {
		it := &p.items[i]
		j := slices.IndexFunc(q.items, func(other item) bool { return other.limit == it.limit })
		if it.lease == nil || j < 0 || q.results[j].Machine == nil {
			continue
		}
		p.charges[i].Cost = min(p.charges[i].Cost, max(it.want, q.results[j].Remaining(now)))
	}
}

// mirror charges to the fallback what stores and counters admitted, on limits that it holds.
func (r *request) mirror() {
	l := r.limiter
	if !l.shares() || r.look || !l.fallback.Holds(r.now) {
		return
	}
	for i := range r.parts { // without those that are appended
		p := &r.parts[i]
		if !p.mirrored() || !p.taken {
			continue
		}
		q := p.mirror(l.fallback)
		if len(q.items) == 0 {
			continue
		}
		if !r.mirrorPart(&q) {
			r.parts[i].lost = true // its leases would serve more than this process has room for
			return
		}
		if !p.items[0].sharded && l.active.Load() == 1 {
			l.fallback.Drop(q.subject(), q.keys(), p.mirrorOf(&q))
		}
	}
	for i := range r.kept {
		if it := r.kept[i].item; it.limit.Spread.Sync > 0 && !it.limit.Shadow && it.limit.OnError == OnErrorLocal {
			q := part{store: l.fallback}
			if q.add(it, it.limit, it.want); !r.mirrorPart(&q) {
				return
			}
		}
	}
}

// mirrorPart charges q, a mirror, to the fallback, and reports whether that admits it.
func (r *request) mirrorPart(q *part) bool {
	q.taken = r.limiter.fallback.Mirror(r.now, q.subject(), q.keys(), q.results)
	q.refused = !q.taken
	r.parts = append(r.parts, *q)
	return q.taken
}
