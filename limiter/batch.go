package limiter

import (
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// task is one charge of a request. The embedded Charge is what the store gets; original and want are what
// the caller passed.
type task struct {
	Charge
	original  *Limit        // limit that the caller passed; Charge.Limit can be its shard
	want      int64         // cost that the caller passed; Charge.Cost is more for a lease, and 0 for a read
	backOff   time.Duration // time for which the back-off refuses the charge, even if the state has room
	sharded   bool
	done      bool  // a tracker decided this charge
	arranged  bool  // the charge belongs to a batch
	unsynced  error // why the counter of the charge cannot decide it; nil if it can
	asked     bool  // the request has asked other regions for share, or waited in vain
	shareless bool  // the other regions have no share
	elsewhere bool  // another region can have share
	gaveUp    bool  // unsynced is the error of a call of another request (tracker.givesUp)

	lease     *tracker // tracker whose lease the charge renews; nil if none
	leaseSize int64    // size of the new lease
	serial    int64    // serial of the new lease
	leaseLeft int64    // quota that is left of the new lease after this request
}

// charge returns the charge that the caller passed.
func (i *task) charge() Charge {
	return Charge{Subject: i.Subject, Limit: i.original, Cost: i.want, Force: i.Force}
}

// decided reports whether r was decided by the parameters of the limit of i, and not by newer rules.
func (i *task) decided(r algo.Result) bool {
	return i.Limit.is(r.Machine)
}

// clamped returns the number of charges whose state the store clamped. A charge of cost 0 clamps
// nothing.
func clamped(charges []Charge, results []algo.Result) (n int) {
	for i := range results {
		if results[i].Clamped && charges[i].Cost > 0 {
			n++
		}
	}
	return n
}

// batch has the charges of a request on one subject. A store takes all of them in one atomic step.
type batch struct {
	from, to int // first and last index of b in the slices of the request
	store    Store
	tasks    []task
	charges  []Charge
	results  []algo.Result
	remote   bool // the store is shared, so the denial cache keeps its states
	// alone reports that b shares no call with other requests, because it forces a charge or takes slots. A store
	// identifies the slots of one call together, but each request must release only its own.
	alone      bool
	calls      int // calls of a shared store
	taken      bool
	refused    bool
	repeats    bool  // b repeats charges of another batch, or of a counter, on the fallback
	of         []int // the index of each charge in the batch that b repeats
	dropLeases bool  // do not use the new leases
	skipped    bool  // b is not charged: its limit is a shadow limit in its back-off, or its limits with Mark refuse
	err        error

	// mirrored are the states of the fallback after it repeated the charges of b. If it did not repeat a charge, the
	// state has no Machine.
	mirrored []algo.Result
}

// shadow reports whether the limits of b are shadow limits, which refuse nothing. Shadow limits count on
// separate subjects. Therefore, all limits of a batch are shadow limits, or none is.
func (b *batch) shadow() bool { return b.tasks[0].original.Shadow }

// denies reports whether b denies the request, unless its limits are shadow limits.
func (b *batch) denies() bool { return (b.refused || busy(b.err)) && !b.skipped }

func (b *batch) marks() bool {
	return slices.ContainsFunc(b.charges, func(c Charge) bool { return c.Limit.Mark })
}

// refuser returns the first limit of b that refuses; nil if none does.
func (b *batch) refuser(now algo.Instant) *Limit {
	for i := range b.tasks {
		if b.refuses(i, now) {
			return b.tasks[i].original
		}
	}
	return nil
}

// refuses reports whether the known state or the back-off of task i refuses it.
func (b *batch) refuses(i int, now algo.Instant) bool {
	task, r := &b.tasks[i], b.results[i]
	return task.backOff > 0 || !task.Force && r.Machine != nil && r.RetryAfter(now, task.want) > 0
}

// exhausted reports whether a known state refuses, without regard to back-offs.
func (b *batch) exhausted(now algo.Instant) bool {
	for i := range b.tasks {
		if r := b.results[i]; r.Machine != nil && r.RetryAfter(now, b.tasks[i].want) > 0 {
			return true
		}
	}
	return false
}

func (b *batch) subject() Subject { return b.charges[0].Subject }
