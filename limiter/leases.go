package limiter

import (
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// sizeLeases sets the cost of each charge that renews a lease to the size of the lease.
func (b *batch) sizeLeases(now algo.Instant) {
	for i := range b.tasks {
		task := &b.tasks[i]
		if task.lease == nil {
			continue
		}
		size := task.want
		if hint := b.results[i]; hint.Machine != nil { // near the limit, leave quota for other processes
			size = min(task.leaseSize, max(task.want, hint.Remaining(now)/2))
		}
		b.charges[i].Cost = size
	}
}

// shrinkLeases reduces leases to the cost of the request. It reports whether a second call can succeed: a
// lease was larger than the request, and the known state has room for the request.
func (b *batch) shrinkLeases(now algo.Instant) bool {
	shrunk := false
	for i := range b.tasks {
		if task := &b.tasks[i]; b.charges[i].Cost > task.want {
			b.charges[i].Cost, shrunk = task.want, true
		}
		if b.refuses(i, now) {
			return false
		}
	}
	return shrunk
}

// giveUpLeases reduces leases to the cost of the request.
func (b *batch) giveUpLeases() {
	for i := range b.tasks {
		b.charges[i].Cost = min(b.charges[i].Cost, b.tasks[i].want)
	}
}

// A bucket's lease is charged at a random instant before the request. The difference is at most
// 1/backdatePart of the bucket's depth, and at most maxBackdate.
const (
	backdatePart = 1024
	maxBackdate  = 50 * time.Millisecond
)

// leaseFirst makes charges of b take leases, for limits that have much room.
func (r *request) leaseFirst(b *batch) {
	ts := r.limiter.trackers
	for i := range b.tasks {
		task := &b.tasks[i]
		if task.lease != nil || task.Force || task.want == 0 || !task.original.leasable() {
			continue
		}
		room := task.original.machine.Capacity()
		if seen := b.results[i]; seen.Machine != nil {
			room = seen.Remaining(r.now)
		}
		if t, size := ts.firstLease(r.now, task.Subject, task.original, task.want, room); t != nil {
			task.lease, task.leaseSize, b.charges[i].Cost = t, size, size
			r.renewals = append(r.renewals, t)
		}
	}
}

// chargeAt returns the instant at which the charges of b are made, and the states that the store probably has
// at this instant.
//
// A bucket's lease is charged at an instant slightly before the request, unless more than half of the bucket is used.
// A bucket is idle if its TAT is not ahead of the instant of the charge. A bucket that many environments charge is
// idle half of the time, and DynamoDB then needs a second write. At the earlier instant the bucket is not idle, so
// nearly every charge takes one write. The earlier instant lets a bucket exceed its burst by at most 1/backdatePart.
func (r *request) chargeAt(b *batch) (at algo.Instant, hint []algo.Result) {
	lag := maxBackdate
	for i := range b.tasks {
		m := b.charges[i].Limit.machine
		if !algo.Leaks(m) || b.tasks[i].lease == nil || b.tasks[i].original.Spread.Lease > 0 {
			return r.now, nil
		}
		if seen := b.results[i]; seen.Machine != nil && 2*seen.Remaining(r.now) < seen.Machine.Capacity() {
			return r.now, nil
		}
		hint = append(hint, algo.Result{Machine: m, State: algo.State{TAT: r.now}})
		lag = min(lag, algo.Leak(m, m.Capacity())/backdatePart)
	}
	return r.now.Add(-time.Duration(r.limiter.intN(int(lag)))), hint
}

// returnLeases gives renewed leases to their trackers, and wakes the requests that wait for them. A
// refused request uses nothing of the leases.
func (r *request) returnLeases(refused bool) {
	l := r.limiter
	if len(r.renewals) == 0 && (!refused || len(r.served) == 0) {
		return
	}
	l.trackers.mu.Lock()
	defer l.trackers.mu.Unlock()
	for i := range r.batches {
		b := &r.batches[i]
		for j := range b.tasks {
			task := &b.tasks[j]
			if task.lease == nil {
				continue
			}
			task.lease.err = b.err
			if !b.taken || b.dropLeases {
				continue
			}
			used := task.want
			if refused {
				used = 0
			}
			lease := &task.lease.lease
			lease.Renew(r.now, b.results[j], b.charges[j].Cost, used)
			lease.Grace = task.original.leaseGrace()
			task.serial, task.leaseLeft = lease.Serial, lease.Granted-used
		}
	}
	if refused {
		r.undoServed()
	}
	r.endRenewals()
}
