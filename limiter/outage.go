package limiter

import (
	"errors"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// fallBack applies OnError to batches whose store failed. If r.limiter.fallback still holds counts of an
// outage, fallBack also charges r.limiter.fallback with what the stores and counters admitted, and with new leases.
func (r *request) fallBack() {
	if !r.denied() {
		switch r.strictest() {
		case OnErrorAllow:
		case OnErrorDeny:
			r.failed = true
		case OnErrorLocal:
			r.takeLocally()
		}
	}
	switch l := r.limiter; {
	case !l.sharesStore() || r.look || !l.fallback.Holds(r.now):
	case r.denied():
		r.mirrorLeases(0)
	default:
		r.mirrorStores()
	}
}

// strictest returns the strictest OnError of all limits whose store failed.
func (r *request) strictest() OnError {
	strictest := OnErrorAllow
	for i := range r.batches {
		if b := &r.batches[i]; b.failed() {
			for j := range b.tasks {
				strictest = max(strictest, b.tasks[j].original.OnError)
			}
		}
	}
	return strictest
}

// failed reports whether OnError decides b, because its store failed.
func (b *batch) failed() bool { return b.err != nil && !busy(b.err) && !b.shadow() }

// takeLocally charges the fallback instead of the store, one subject after the other, until one refuses.
// If the fallback has no room for a subject, the request is denied.
func (r *request) takeLocally() {
	for i := range r.batches { // the loop does not reach batches that it appends
		failed := &r.batches[i]
		if !failed.failed() {
			continue
		}
		if !r.limiter.sharesStore() { // the store of this process is full
			r.failed, r.fallbackFull = true, true
			return
		}
		b := failed.localCharges(r)
		if len(b.tasks) == 0 {
			continue
		}
		r.now = r.fallbackNow()
		if b.exceedsShare() { // not a refusal: the store can admit the request after the outage
			r.failed = true
			return
		}
		r.takeFallback(&b)
		r.batches = append(r.batches, b)
		if b.err != nil {
			r.failed, r.fallbackFull = true, errors.Is(b.err, ErrFull)
		}
		if r.denied() {
			return
		}
	}
}

// fallbackNow returns the instant of the request at the fallback. A time without a monotonic reading is not from Now, and
// counts as it is.
func (r *request) fallbackNow() algo.Instant {
	if r.at == r.at.Round(0) { //nolint:staticcheck // Equal ignores monotonic readings
		return r.now
	}
	return algo.InstantOf(r.limiter.fallback.clock.when(time.Now(), r.at))
}

// takeFallback charges b to the fallback, which counts at least the usage that this process last saw in
// the store.
func (r *request) takeFallback(b *batch) {
	b.taken, b.err = r.limiter.fallback.take(r.now, b.charges[0].Subject, b.charges, b.results, func() { r.fillLast(b) })
	r.judge(b)
}

// fillLast fills the results of b with the states that this process last saw. Where b charges a share of a limit, it
// converts the state to the share.
func (r *request) fillLast(b *batch) {
	for i := range b.tasks {
		task := &b.tasks[i]
		s := r.lastState(task)
		if task.Limit.isLocalShare {
			s = algo.Part(task.original.machine, task.Limit.machine, int64(task.original.LocalProcesses), s, r.now)
		}
		b.results[i] = algo.Result{Machine: task.Limit.machine, State: s}
	}
}

// lastState returns the state of a task's limit at the instant of the request, as far as this process
// knows it. It uses the state that this process last saw in the store, of any age, and the counter of
// this process. The caller holds the lock of the table.
func (r *request) lastState(task *task) algo.State {
	l := r.limiter
	var s algo.State
	if last := l.denials.last(r.now, task.Subject, task.original); last.Machine != nil {
		s = quota.Convert(last.Machine, task.original.machine, last.State, r.now)
	}
	if c := l.trackers.count(task.Subject, task.original.ID); c.Machine != nil { // the limit can have had a counter under older rules
		s = algo.Merge(task.original.machine, s, quota.Convert(c.Machine, task.original.machine, c.State, r.now))
	}
	return s
}

// exceedsShare reports whether a charge of b costs more than the capacity of this process's share.
func (b *batch) exceedsShare() bool {
	return slices.ContainsFunc(b.tasks, func(stored task) bool {
		return stored.Limit.isLocalShare && !stored.Force && stored.want > stored.Limit.machine.Capacity()
	})
}

// localCharges returns the charges of b with OnErrorLocal for the fallback. Each is on the limit and, if
// processes divide the limit, also on the share of this process.
func (b *batch) localCharges(r *request) batch {
	mirror := batch{store: r.limiter.fallback}
	for i := range b.tasks {
		task := &b.tasks[i]
		if task.original.OnError != OnErrorLocal {
			continue
		}
		cost := task.want
		if r.look {
			cost = 0
		}
		if share := task.original.localShare; share != nil {
			mirror.add(task, share, cost)
		}
		mirror.add(task, task.original, cost)
	}
	return mirror
}

func (b *batch) add(stored *task, limit *Limit, cost int64) {
	charge := Charge{Subject: stored.Subject, Limit: limit, Cost: cost, Force: stored.Force}
	b.tasks = append(b.tasks, task{Charge: charge, original: stored.original, want: stored.want, leaseLeft: max(0, cost-stored.want)})
	b.charges, b.results = append(b.charges, charge), append(b.results, algo.Result{})
}

// lookUpOutage applies the counts that remain from an outage, which the fallback holds. If they refuse the request, it is
// denied without a store call. New leases are bounded by the room that these counts leave. While the store fails,
// lookUpOutage denies nothing, because only a store call can find the end of the outage.
func (r *request) lookUpOutage() {
	l, now := r.limiter, r.fallbackNow()
	for i := range r.batches {
		b := &r.batches[i]
		mirror, ok := b.mirror(l.fallback)
		if !ok || b.err != nil || !l.fallback.look(now, mirror.subject(), mirror.charges, mirror.results) {
			continue
		}
		switch {
		case mirror.refuser(now) == nil:
			b.capLeases(&mirror, now)
		case !l.failing.Load():
			r.now, mirror.refused = now, true
			r.batches = append(r.batches, mirror)
			return
		}
	}
}

// hasMirror reports whether the fallback may repeat charges of b, because it holds counts of the subject.
func (b *batch) hasMirror(f *fallback) bool {
	return b.remote && !b.shadow() && f.holdsSubject(b.tasks[0].Subject)
}

// hasMirror reports whether the fallback may repeat charges of r.
func (r *request) hasMirror() bool {
	return len(r.served) > 0 || slices.ContainsFunc(r.batches, func(b batch) bool { return b.hasMirror(r.limiter.fallback) })
}

// mirror returns the charges of b with OnErrorLocal, for the fallback. ok is false if there are none, or if the fallback
// may not repeat charges of b.
func (b *batch) mirror(store *fallback) (mirror batch, ok bool) {
	if !b.hasMirror(store) {
		return mirror, false
	}
	mirror = batch{store: store, repeats: true}
	for i := range b.tasks {
		if task := &b.tasks[i]; task.original.OnError == OnErrorLocal {
			mirror.add(task, task.original, b.charges[i].Cost)
			mirror.of = append(mirror.of, i)
		}
	}
	return mirror, len(mirror.tasks) > 0
}

// capLeases bounds new leases of b by the room of its mirror.
func (b *batch) capLeases(mirror *batch, now algo.Instant) {
	for j, i := range mirror.of {
		if task := &b.tasks[i]; task.lease != nil && mirror.results[j].Machine != nil {
			b.charges[i].Cost = min(b.charges[i].Cost, max(task.want, mirror.results[j].Remaining(now)))
		}
	}
}

// mirrorStores charges the fallback with what stores and counters admitted, for limits of which the fallback holds
// counts.
func (r *request) mirrorStores() {
	l := r.limiter
	for i := range r.batches { // the loop does not reach batches that it appends
		b := &r.batches[i]
		mirror, ok := b.mirror(l.fallback)
		if !ok || !b.taken {
			continue
		}
		stored := make([]algo.Result, len(mirror.of))
		for j, i := range mirror.of {
			stored[j] = b.results[i]
		}
		copy(mirror.results, stored)
		if !r.takeMirror(&mirror) {
			r.batches[i].dropLeases = true // new leases would admit more requests than the fallback has room for
			r.mirrorLeases(i + 1)
			return
		}
		mirrored := make([]algo.Result, len(b.tasks))
		for j, i := range mirror.of {
			mirrored[i] = mirror.results[j]
		}
		r.batches[i].mirrored = mirrored
		// If a settlement was in progress since the call, the states of b can have a charge that is refunded now.
		if l.active.Load() == 1 && l.settled.Load() == r.settled {
			l.fallback.drop(mirror.subject(), mirror.charges, stored)
		}
	}
	for i := range r.served {
		if task := r.served[i].task; task.original.Spread.hasCounter() && !task.original.Shadow && task.original.OnError == OnErrorLocal &&
			l.fallback.holdsSubject(task.Subject) {
			mirror := batch{store: l.fallback, repeats: true}
			mirror.add(task, task.original, task.want)
			if !r.takeMirror(&mirror) {
				return
			}
			r.served[i].mirrored = mirror.results[0]
		}
	}
}

// mirrorLeases charges the fallback with the new leases of a denied request, because later requests use them. It begins
// with the batch whose index is from, and drops leases for which the fallback has no room.
func (r *request) mirrorLeases(from int) {
	fallback := r.limiter.fallback
	for i := from; i < len(r.batches); i++ {
		b := &r.batches[i]
		if !b.hasMirror(fallback) || !b.taken {
			continue
		}
		leases := batch{store: fallback}
		for j := range b.tasks {
			if task := &b.tasks[j]; task.lease != nil && task.original.OnError == OnErrorLocal {
				leases.add(task, task.original, b.charges[j].Cost)
			}
		}
		if len(leases.tasks) > 0 && !fallback.mirror(r.fallbackNow(), leases.subject(), leases.charges, leases.results) {
			b.dropLeases = true
		}
	}
}

// takeMirror charges a mirror to the fallback, and reports whether the fallback admits it.
func (r *request) takeMirror(mirror *batch) bool {
	now := r.fallbackNow()
	mirror.taken = r.limiter.fallback.mirror(now, mirror.subject(), mirror.charges, mirror.results)
	mirror.refused = !mirror.taken
	if mirror.refused {
		r.now = now
	}
	r.batches = append(r.batches, *mirror)
	return mirror.taken
}
