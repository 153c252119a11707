package limiter

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// serveRounds is the number of times that a request waits for other requests that renew its trackers.
// After that, the request calls the store itself.
const serveRounds = 4

// tracked reports whether a tracker decides the task, because its limit has a Spread that needs one.
func (r *request) tracked(task *task) bool {
	s := &task.original.Spread
	return task.want > 0 && (s.hasCounter() || s.Lease > 1 && !task.Force && !r.look)
}

// tracker returns the tracker that decides a task; nil if none does. The caller holds the lock.
func (r *request) tracker(task *task) *tracker {
	ts := r.limiter.trackers
	if r.tracked(task) {
		return ts.get(r.now, task.Subject, task.original)
	}
	if task.want > 0 && !task.Force && !r.look && task.original.leasable() && ts.anyPressure(r.now) {
		return ts.pressed(r.now, task.Subject, task.original)
	}
	return nil
}

// serve lets trackers decide their tasks. If a lease is used up, serve leaves the task to the store,
// whose charge renews the lease. If the synchronization of a counter is due, serve first synchronizes
// it. If a tracker refuses, nothing is charged.
func (r *request) serve(ctx context.Context) {
	l := r.limiter
	if !l.sharesStore() || !r.spread && !l.trackers.anyPressure(r.now) {
		return
	}
	for waits := 0; ; {
		wait, due := r.tryTrackers(waits < serveRounds)
		switch {
		case wait != nil:
			waits++
			select {
			case <-wait:
			case <-r.deadline(ctx).Done():
				return
			}
		case due != nil:
			r.synchronize(ctx, due)
		default:
			return
		}
	}
}

// tryTrackers lets trackers decide all their tasks, or none. If it decides none, it returns a channel
// to wait for, or a task whose counter this request has to synchronize. If mayWait is false, it leaves
// the tasks that would have to wait to the store.
func (r *request) tryTrackers(mayWait bool) (wait <-chan struct{}, due *task) {
	ts := r.limiter.trackers
	ts.mu.Lock()
	defer ts.mu.Unlock()
	refused := false
	for i := range r.tasks {
		task := &r.tasks[i]
		t := r.tracker(task)
		if t == nil || task.unsynced != nil {
			continue
		}
		s := served{task: task, tracker: t}
		synchronized, serves := task.original.Spread.hasCounter(), t.serves(r.now, task.original, task.want)
		switch {
		case r.look && !t.counter.Known():
			continue // the store decides
		case r.look:
			s.allowed, s.result = t.counter.Look(r.now, task.want, task.Force)
		case !serves && r.tracked(task) && t.givesUp(r.waitedFor == t):
			task.unsynced, task.gaveUp = t.err, true
			continue
		case synchronized && t.renewing == nil && (!serves || t.counter.Due(r.now)):
			due = task
			t.renewing = make(chan struct{})
		case synchronized && serves:
			s.allowed, s.result, s.taken = t.counter.Take(r.now, task.want, task.Force)
			refused = refused || !s.allowed && task.original.enforced()
		case serves:
			s.use(r.now)
		case t.renewing != nil && (!mayWait || !r.tracked(task)):
			continue // the request charges the store and does not wait
		case t.renewing != nil:
			wait, r.waitedFor = t.renewing, t
		default:
			task.lease, task.leaseSize = t, ts.nextLease(r.now, t, task.want)
			continue
		}
		if wait != nil || due != nil {
			r.dropServed()
			return wait, due
		}
		if synchronized && t.err != nil && !task.original.Shadow {
			r.counterErr = t.err
		}
		task.done = true
		r.served = append(r.served, s)
	}
	if refused {
		r.undoServed()
		return nil, nil
	}
	for i := range r.tasks {
		if task := &r.tasks[i]; task.lease != nil {
			task.lease.renewing = make(chan struct{})
			r.renewals = append(r.renewals, task.lease)
		}
	}
	return nil, nil
}

// dropServed undoes the charges of trackers and removes their decisions, so that they decide again in the
// next round. The caller holds the lock.
func (r *request) dropServed() {
	r.undoServed()
	for i := range r.served {
		if s := &r.served[i]; !s.allowed && !r.look {
			s.tracker.counter.Repeat(s.task.want)
		}
	}
	for i := range r.tasks {
		task := &r.tasks[i]
		task.done, task.lease, task.leaseLeft = false, nil, 0
		if task.gaveUp {
			task.unsynced, task.gaveUp = nil, false
		}
	}
	r.served, r.counterErr = r.served[:0], nil
}

// synchronize synchronizes the counter of a task with the store. The store makes the charges that the
// counter has not yet reported, even beyond the limit. If the store failed and the counter must not decide without
// the store, the store decides the task.
func (r *request) synchronize(ctx context.Context, task *task) {
	l := r.limiter
	l.trackers.mu.Lock()
	t := l.trackers.get(r.now, task.Subject, task.original)
	out := t.counter.Report(r.now)
	l.trackers.mu.Unlock()

	charges := t.limit.reportCharges(task.Subject, out)
	results := make([]algo.Result, len(charges))
	calls, err := 1, ErrUnavailable // these values stay if the store panics
	defer func() {
		l.trackers.mu.Lock()
		defer l.trackers.mu.Unlock()
		if err == nil {
			r.overshoot = max(r.overshoot, t.counter.Reported(r.now, out, results, l.intN))
		} else {
			t.counter.Unreported(r.now, out, calls > 0 && mayHaveCharged(err), busy(err), l.intN)
		}
		t.err = err
		t.endRenewal()
	}()
	began := time.Now()
	_, calls, err = l.call(r.deadline(ctx), out.At, task.Subject, charges, results)
	r.storeCalls += calls
	r.storeTime += time.Since(began)
	if err == nil {
		r.clamped += clamped(charges, results)
	}
	switch {
	case err == nil, busy(err):
	case !t.counter.Known() || !task.original.countsAlone():
		task.unsynced = err
	case task.original.Shadow:
		l.log.failure(ctx, r.now, err)
	}
}
