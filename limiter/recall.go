package limiter

import "slices"

// recall looks every part up in the denial cache, and then in what this process counted in an
// outage. Leases become no larger than the known state has room for.
func (r *request) recall() {
	l := r.limiter
	if !l.shares() {
		return
	}
	for i := range r.parts {
		p := &r.parts[i]
		if !p.remote {
			continue
		}
		if r.resting(p) {
			p.err = errResting
			continue
		}
		if p.items[0].sharded {
			p.refused = r.pickShard(p)
		} else {
			p.refused = p.recall(r.now, l.denials)
		}
		if p.refused && p.shadow() && !p.full(r.now) { // only backed off: the limit itself may have room
			p.refused, p.skipped = false, true
		}
		p.size(r.now)
	}
	if !r.refused() {
		r.recallOutage()
	}
}

// resting reports whether p makes no call, because the item of its subject is busy. Looks and forced
// charges always make one.
func (r *request) resting(p *part) bool {
	s := r.limiter.accounts
	return !r.look && s.strained(r.now) && slices.ContainsFunc(p.items, func(it item) bool {
		return it.Cost > 0 && !it.Force && s.resting(r.now, it.Subject, it.limit)
	})
}
