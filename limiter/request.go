package limiter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// requests is a pool of requests that are reused, with their slices.
var requests = sync.Pool{New: func() any { return new(request) }}

// request is one decision in progress.
type request struct {
	limiter *Limiter
	at      time.Time
	now     algo.Instant
	look    bool // the request charges nothing
	receipt bool // the caller gets a Receipt
	spread  bool // a limit of the request has a Spread
	notify  bool // a limit of the request has Notify
	shared  bool // regions share a limit of the request

	tasks   []task   // the tasks of the charges, in the same order
	served  []served // what trackers of this process decided
	grouped []task   // the tasks that stores decide; those of one batch are adjacent
	charges []Charge
	results []algo.Result // the result of each charge
	batches []batch

	parallel parallel // the calls of several batches

	ctx    context.Context // context with the deadline; nil until a call needs it
	cancel context.CancelFunc

	renewals  []*tracker // trackers that the store call of this request will renew
	waitedFor *tracker   // the tracker whose renewal the request waited for

	chargedAt    time.Time // when the stores were charged; zero if no refund can follow
	settled      int64     // Limiter.settled when the stores were called
	overshoot    int64
	storeTime    time.Duration // time that the request waited for a shared store
	storeCalls   int           // calls of a shared store that belong to no batch
	refunds      Refunds
	clamped      int
	counterErr   error // error of the last synchronization of a counter that decides without the store
	failed       bool  // the request is denied because a store failed
	fallbackFull bool  // the fallback has no room for the subject
	moved        Transfer
	rounds       int       // how often the request asked other regions for share, or waited for a request that did
	shareUntil   time.Time // end of the time for these rounds
}

func (r *request) begin(l *Limiter, now time.Time, charges []Charge) {
	r.limiter, r.at, r.now = l, now, algo.InstantOf(now)
	l.active.Add(1)
	r.tasks = slices.Grow(r.tasks, len(charges))[:len(charges)]
	for i := range charges {
		c, stored := &charges[i], &r.tasks[i]
		*stored = task{Charge: *c, original: c.Limit, want: c.Cost}
		if c.Limit.Shadow {
			stored.Subject = c.Limit.countedSubject(c.Subject)
		}
		if r.look {
			stored.Cost = 0
		}
		stored.sharded = c.Limit.Spread.Shards > 0 && l.sharesStore()
		r.spread = r.spread || c.Limit.Spread != Spread{}
		r.notify = r.notify || c.Limit.notifies()
		r.shared = r.shared || c.Limit.regions != nil
	}
}

// reset makes r ready for another decision. It keeps the memory of the slices.
func (r *request) reset() {
	tasks, served, grouped, charges, results, batches, renewals, calls := r.tasks[:0], r.served[:0], r.grouped[:0], r.charges[:0],
		r.results[:0], r.batches[:0], r.renewals[:0], r.parallel.calls
	*r = request{}
	r.tasks, r.served, r.grouped, r.charges, r.results, r.batches, r.renewals, r.parallel.calls = tasks, served, grouped, charges, results,
		batches, renewals, calls
}

// arrange groups the tasks that no tracker has decided into batches: one batch per subject.
func (r *request) arrange() error {
	if len(r.tasks) == 1 && !r.tasks[0].done { // no copy
		r.tasks, r.grouped = r.grouped, r.tasks
		r.batches = append(r.batches, batch{to: 1})
		r.fill()
		return nil
	}
	for i := range r.tasks {
		first := &r.tasks[i]
		if first.done || first.arranged {
			continue
		}
		from, n := len(r.grouped), 0
		for j := i; j < len(r.tasks); j++ {
			if task := &r.tasks[j]; j == i || !task.done && task.Subject == first.Subject && !task.sharded && !first.sharded {
				task.arranged = true
				r.grouped = append(r.grouped, *task)
				n++
			}
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
			task := &b.tasks[j]
			if b.err == nil {
				b.err = task.unsynced
			}
			b.alone = b.alone || task.Force || task.original.concurrent() && task.Cost > 0
		}
	}
}

// cleanUp releases what r holds. It also runs if a store panics.
func (r *request) cleanUp() {
	r.limiter.active.Add(-1)
	if r.cancel != nil {
		r.cancel()
	}
	if len(r.renewals) > 0 {
		r.limiter.trackers.mu.Lock()
		defer r.limiter.trackers.mu.Unlock()
		r.endRenewals()
	}
}

// deadline returns ctx with the deadline of the decision. The timeout starts at the first call of
// deadline, which is when the decision first waits for a shared store.
func (r *request) deadline(ctx context.Context) context.Context {
	l := r.limiter
	if r.ctx == nil {
		r.ctx = ctx
		if timeout := l.timeoutAt(r.now); timeout > 0 {
			r.ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), timeout)
		}
	}
	return r.ctx
}

// timeoutAt returns how long a decision or a settlement at the instant now may wait for a shared store. 0 means
// without a bound.
func (l *Limiter) timeoutAt(now algo.Instant) time.Duration {
	if l.timeout == 0 || l.remote == nil {
		return l.timeout
	}
	return max(l.timeout, l.remote.ConnectTimeout(now))
}

// denied reports whether anything has denied the request so far.
func (r *request) denied() bool { return r.failed || r.refused() }

// refused reports whether a limit without Shadow refuses the request, or one of its subjects is busy.
func (r *request) refused() bool {
	for i := range r.batches {
		if b := &r.batches[i]; b.denies() && !b.shadow() {
			return true
		}
	}
	for i := range r.served {
		if s := &r.served[i]; !s.allowed && s.task.original.enforced() {
			return true
		}
	}
	return false
}

// judge sets whether b is refused, after a store took its charges or did not. A look takes nothing.
func (r *request) judge(b *batch) {
	b.refused = !b.taken && b.err == nil
	if r.look && b.err == nil {
		b.taken, b.refused = false, b.refuser(r.now) != nil
	}
}

// leaveOutMarks leaves out the limits with Mark that deny the request, so that the other limits can be decided again. It
// returns false if other limits deny the request.
func (r *request) leaveOutMarks() bool {
	for i := range r.batches { // the loop does not reach batches that it appends
		if b := &r.batches[i]; b.denies() && !b.shadow() && !r.leaveOutMarksOf(i) {
			return false
		}
	}
	return true
}

// leaveOutMarksOf leaves out the limits with Mark that deny batch i. It returns false if other limits deny the batch.
// If limits remain in the batch, the limits that were left out get a batch of their own.
func (r *request) leaveOutMarksOf(i int) bool {
	b := r.batches[i]
	if !b.marks() {
		return false
	}
	rest, out := b, b
	rest.tasks, rest.charges, rest.results = nil, nil, nil
	out.tasks, out.charges, out.results = nil, nil, nil
	for j := range b.tasks {
		to := &rest
		if busy(b.err) || b.refuses(j, r.now) {
			to = &out
			if !b.tasks[j].original.Mark {
				return false
			}
		}
		to.tasks, to.charges, to.results = append(to.tasks, b.tasks[j]), append(to.charges, b.charges[j]), append(to.results, b.results[j])
	}
	if len(out.tasks) == 0 { // it is unknown which limit refused
		return false
	}
	out.refused, out.skipped = false, true
	if len(rest.tasks) == 0 {
		r.batches[i] = out
		return true
	}
	rest.refused, rest.calls = false, 0 // out reports the calls until now
	r.batches[i] = rest
	r.batches = append(r.batches, out)
	return true
}

// undoServed undoes the charges that trackers made for r. The answers of the trackers stay valid. The
// caller holds the lock of the trackers.
func (r *request) undoServed() {
	for i := range r.served {
		r.served[i].undo(r.now)
	}
}

// endRenewals wakes the requests that wait for trackers that r renews. The caller holds the lock of the
// trackers.
func (r *request) endRenewals() {
	for _, t := range r.renewals {
		t.endRenewal()
	}
	r.renewals = r.renewals[:0]
}

// served is a charge that a tracker of this process decided.
type served struct {
	task    *task
	tracker *tracker
	allowed bool
	result  algo.Result // the state after the charge, or the state that refused it
	taken   quota.Taken // the charge on the counter, if the tracker has one
	serial  int64       // serial of the lease, if the tracker has one
	undone  bool        // undo was called
	// mirrored is the state of the fallback after it repeated the charge. It has no Machine if the fallback did not,
	// or if it refunded the charge.
	mirrored algo.Result
	returned bool // the counter returned the charge
}

// use charges the task to the lease of its tracker.
func (s *served) use(now algo.Instant) {
	l := &s.tracker.lease
	l.Used += s.task.want
	s.allowed, s.result, s.serial, s.task.leaseLeft = true, l.Result, l.Serial, l.Left(now)
}

// undo undoes the charge, because the request is denied or decides again.
func (s *served) undo(now algo.Instant) {
	if s.allowed && s.task.Cost > 0 && !s.undone {
		s.giveBack(now, s.task.want)
	}
	s.undone = true
}

// giveBack returns a part of the cost to the lease, if the tracker still has this lease and can use the part. It
// returns the whole charge to the counter, if the counter has not sent the charge yet.
func (s *served) giveBack(now algo.Instant, cost int64) bool {
	if s.task.original.Spread.hasCounter() {
		s.returned = cost == s.task.want && s.tracker.counter.Undo(s.taken)
		return s.returned
	}
	l := &s.tracker.lease
	if l.Serial != s.serial {
		return false
	}
	left := l.Left(now)
	l.Used -= cost
	if l.Left(now) > left {
		return true
	}
	l.Used += cost
	return false
}
