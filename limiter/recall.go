package limiter

import "github.com/weir-limits/weir/limiter/algo"

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
		if !r.look && l.resting(r.now, p) {
			p.err = errResting
			continue
		}
		if p.items[0].sharded {
			p.refused = r.pickShard(p)
		} else {
			p.refused = l.denials.recall(r.now, p)
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
