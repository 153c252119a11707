package limiter

import "slices"

// lookUp looks every batch up in the denial cache, and then in the fallback's counts of an outage. It
// bounds new leases by the room of the known state.
func (r *request) lookUp() {
	l := r.limiter
	if !l.shares() {
		return
	}
	for i := range r.batches {
		b := &r.batches[i]
		if !b.remote {
			continue
		}
		if r.paused(b) {
			b.err = errPaused
			continue
		}
		if b.items[0].sharded {
			b.refused = r.pickShard(b)
		} else {
			b.refused = b.lookUp(r.now, l.denials)
		}
		// The back-off of a shadow limit refuses, although the limit possibly has room.
		if b.refused && b.shadow() && !b.exhausted(r.now) {
			b.refused, b.skipped = false, true
		}
		b.sizeLeases(r.now)
	}
	if !r.refused() {
		r.lookUpOutage()
	}
}

// paused reports whether b makes no call, because the item of its subject is busy. Charges of cost 0 and
// forced charges always make a call.
func (r *request) paused(b *batch) bool {
	ts := r.limiter.trackers
	return !r.look && ts.anyPressure(r.now) && slices.ContainsFunc(b.items, func(it item) bool {
		return it.Cost > 0 && !it.Force && ts.paused(r.now, it.Subject, it.limit)
	})
}
