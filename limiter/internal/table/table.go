package table

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
	"github.com/weir-limits/weir/limiter/internal/evict"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// Table is all that this process keeps of subjects: one row for each. Cache and Trackers, the counts of an outage and
// notices read and change the parts of a row. Its lock is that of all of them.
//
// The table is bounded by weight. A sixth of it is for rows that the process may forget: a store knows what they
// know. If such a row has no room, the table evicts those that were unchanged for the longest time. The rest is for
// rows that stay until their leases, counters and counts of an outage have expired. Half of this rest is free for the
// requests of an outage.
type Table struct {
	sync.Mutex
	most    int          // highest weight
	Holding atomic.Int64 // number of rows with counts of an outage

	rows         map[domain.Subject]*Row
	order        list.List // the rows that may be forgotten; the last one has changed last
	loose, fixed int       // weight of the rows in order, and of the others
	swept        algo.Instant
	unused       evict.Queue[domain.Subject]
	Evicted      evict.Count // subjects that lost counts of an outage
}

// Row is what this process keeps of one subject.
type Row struct {
	subject  domain.Subject
	seen     []Seen        // denial cache
	Noticed  []Noticed     // notices
	Counts   []OutageCount // counts of an outage
	trackers []*Tracker    // leases and counters
	Used     algo.Instant  // last charge in an outage

	weight int           // as counted in the table; 0 if the row is not in the table
	holds  bool          // the row counts in Table.Holding
	place  *list.Element // in Table.order; nil if the row must stay
}

// Seen is the state of a limit that this process last saw in the store. New rules have other limits, even for
// the same ID, and these find no state here.
type Seen struct {
	limit  *domain.Limit // of the last charge
	Result algo.Result
	at     algo.Instant // when this process saw the state
	open   *openCharge  // nil unless a settlement charges the limit

	backOffs []backOff // one for each threshold on the count (Rate.Of) whose charges the store refused
}

// openCharge is a lower bound of what the store counts while settlements charge a limit. It is the state before the
// settlements, plus the charges of this process since then, plus the charges of settlements that have ended. A state
// that is recorded in this time may include the charge of a settlement or not.
//
// The store can answer a charge before a settlement, and this process can record the answer after the settlement. The
// recorded state then lacks the settlement until the next charge.
type openCharge struct {
	least       algo.State
	since       algo.Instant // of least
	settlements int          // that have not ended
}

// Noticed is a notice that this process wrote: its limit, its percentage of a capacity, and the end of its period.
type Noticed struct {
	Limit    domain.ID
	Percent  int
	Capacity int64
	End      int64
}

// OutageCount is the state of a limit, or of the share of a limit, in an outage.
type OutageCount struct {
	Limit   *domain.Limit
	Machine algo.Machine // that of the limit, or that of an earlier version
	State   algo.State
}

// Tracker is what this process holds of one limit of a subject: a lease or a counter, and the pressure
// on the subject.
type Tracker struct {
	Limit    *domain.Limit
	Lease    quota.Lease
	Counter  quota.Counter
	Pressure quota.Pressure
	// Renewing is not nil while a request calls the store for a new lease or a synchronization. It
	// is closed when that request has the result.
	Renewing chan struct{}
	Err      error // error of the last call for a lease or a synchronization; nil if it succeeded
}

// New returns an empty table for rows of the weight most.
func New(most int) *Table { return &Table{most: most, rows: map[domain.Subject]*Row{}} }

// nothing is the row of a subject of which the table keeps nothing.
var nothing Row

// Of returns the row of a subject, to read it. The caller holds the lock.
func (t *Table) Of(s domain.Subject) *Row {
	if r := t.rows[s]; r != nil {
		return r
	}
	return &nothing
}

// Open returns the row of a subject, to change it. After the change, the caller MUST call Changed. The caller holds
// the lock.
func (t *Table) Open(s domain.Subject) *Row {
	if r := t.rows[s]; r != nil {
		return r
	}
	return &Row{subject: s}
}

// Changed takes over a change of a row. It adds the row or removes it if it is empty, and evicts others if there is
// no room. The caller holds the lock.
func (t *Table) Changed(r *Row) {
	sum := &t.fixed
	if r.place != nil {
		sum = &t.loose
	}
	*sum -= r.weight
	added := r.weight == 0
	r.weight = r.size()
	switch {
	case r.weight == 0:
		delete(t.rows, r.subject)
	case added:
		r.subject = r.subject.Clone() // the subject can share memory with a large request text
		t.rows[r.subject] = r
	}
	switch holds := len(r.Counts) > 0; {
	case holds && !r.holds:
		t.Holding.Add(1)
		t.unused.Added(r.Used, r.subject, len(t.rows))
	case !holds && r.holds:
		t.Holding.Add(-1)
	}
	r.holds = len(r.Counts) > 0
	switch loose := r.weight > 0 && !r.holds && len(r.trackers) == 0; {
	case loose && r.place != nil:
		t.order.MoveToBack(r.place)
	case loose:
		r.place = t.order.PushBack(r)
	case r.place != nil:
		t.order.Remove(r.place)
		r.place = nil
	}
	if r.place == nil {
		t.fixed += r.weight
		return
	}
	for t.loose += r.weight; t.loose > t.most/6 && t.order.Len() > 1; {
		oldest := t.order.Front().Value.(*Row)
		oldest.seen, oldest.Noticed = nil, nil
		t.Changed(oldest)
	}
}

// A row with at most rowStates states and rowLog bytes of logs takes about a kilobyte. A larger row counts as
// several.
const (
	rowStates     = 4
	rowLog        = 512
	trackerStates = 2 // states that are as large as one Tracker
)

// size returns the weight of r; 0 if it is empty.
func (r *Row) size() int {
	states := len(r.seen) + len(r.Noticed) + len(r.Counts) + trackerStates*len(r.trackers)
	weight := (states + rowStates - 1) / rowStates
	for i := range r.seen {
		weight += len(r.seen[i].Result.State.Entries) / rowLog
	}
	for i := range r.Counts {
		weight += len(r.Counts[i].State.Entries) / rowLog
	}
	return weight
}

// ForOutage is the part of a Table for rows that stay, in an outage.
func (t *Table) ForOutage() int { return t.most - t.most/6 }

// ForOthers is the part for rows that stay without an outage: half of ForOutage.
func (t *Table) ForOthers() int { return (t.ForOutage() + 1) / 2 }

// Room reports whether the rows that stay weigh less than most. If not, it removes what has expired, at most once a
// second. The caller holds the lock.
func (t *Table) Room(now algo.Instant, most int) bool {
	if t.fixed < most {
		return true
	}
	if age := now.Sub(t.swept); age >= 0 && age < time.Second {
		return false
	}
	t.swept = now
	for _, r := range t.rows {
		if r.place == nil {
			r.expire(now)
			t.Changed(r)
		}
	}
	return t.fixed < most
}

// Evict makes room for rows of the weight most, as Room reports it. It evicts rows with counts of an outage and without
// trackers: subjects at full quota first, then, of those below half of all their limits, the ones that were unused for the
// longest time. It reports whether there is room. The caller holds the lock.
func (t *Table) Evict(now algo.Instant, most int) bool {
	for t.fixed >= most {
		oldest, ok := evict.Next(&t.unused, now, t.rows, domain.Subject{}, func(s domain.Subject) (algo.Instant, bool) {
			return t.Of(s).unused(now)
		})
		if !ok {
			return false
		}
		r := t.rows[oldest]
		if !r.full(now) {
			t.Evicted.Add()
		}
		r.Counts = nil
		t.Changed(r)
	}
	return true
}

// expire removes idle trackers. It removes the counts of an outage if all of them have expired.
func (r *Row) expire(now algo.Instant) {
	r.drop(func(t *Tracker) bool { return t.idle(now) })
	if !slices.ContainsFunc(r.Counts, func(s OutageCount) bool { return s.Machine.Idle(s.State) > now }) {
		r.Counts = nil
	}
}

// full reports whether the counts of an outage leave the subject its full quota.
func (r *Row) full(now algo.Instant) bool {
	return !slices.ContainsFunc(r.Counts, func(c OutageCount) bool { return c.Machine.ResetAfter(c.State, now) > 0 })
}

// unused returns the last charge in an outage, 0 of a subject at full quota, and whether Evict may evict r.
func (r *Row) unused(now algo.Instant) (at algo.Instant, may bool) {
	may = r.holds && len(r.trackers) == 0
	if may && r.full(now) {
		return 0, true
	}
	return r.Used, may && !slices.ContainsFunc(r.Counts, func(c OutageCount) bool {
		return 2*c.Machine.Used(c.State, now) >= algo.Least(c.Machine)
	})
}

// drop removes trackers. Their leases end, so a receipt can no longer return quota to them.
func (r *Row) drop(which func(*Tracker) bool) {
	r.trackers = slices.DeleteFunc(r.trackers, func(t *Tracker) bool {
		if !which(t) {
			return false
		}
		t.Lease.Serial++
		return true
	})
}

// idle reports whether t may be removed.
func (t *Tracker) idle(now algo.Instant) bool {
	if t.Renewing != nil || t.Lease.Left(now) > 0 || t.Pressure.Current(now) > 1 {
		return false
	}
	return t.Counter.Idle(now)
}

// Forget removes the states, leases and counters of a subject. It keeps trackers that a request renews, notices, and
// counts of an outage.
func (t *Table) Forget(s domain.Subject) {
	t.Lock()
	defer t.Unlock()
	r := t.Open(s)
	r.seen = nil
	r.drop(func(t *Tracker) bool { return t.Renewing == nil })
	t.Changed(r)
}

// DropCounts removes all counts of outages. The caller holds the lock.
func (t *Table) DropCounts() {
	for _, r := range t.rows {
		if r.holds {
			r.Counts = nil
			t.Changed(r)
		}
	}
}

// Holds reports whether r has counts of an outage.
func (r *Row) Holds() bool { return r.holds }
