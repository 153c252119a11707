package limiter

import (
	"container/list"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/quota"
)

// table is all that this process keeps of subjects: one entry for each. The types denials, notices, trackers and
// fallback read and change the parts of an entry.
//
// The table is bounded by weight. A sixth of it is for entries that the process may forget: a store knows what they
// know. If such an entry has no room, the table evicts those that were unchanged for the longest time. The rest is for
// entries that stay until their leases, counters and counts of an outage have expired. Half of this rest is free for the
// requests of an outage.
type table struct {
	most    int          // highest weight
	holding atomic.Int64 // number of entries with counts of an outage

	mu           sync.Mutex
	entries      map[Subject]*entry
	order        list.List // the entries that may be forgotten; the last one has changed last
	loose, fixed int       // weight of the entries in order, and of the others
	swept        algo.Instant
}

// entry is what this process keeps of one subject.
type entry struct {
	subject  Subject
	seen     []seenState // denial cache
	noticed  []noticed   // notices
	held     []heldState // counts of an outage
	trackers []*tracker  // leases and counters

	weight int           // as counted in the table; 0 if the entry is not in the table
	holds  bool          // the entry counts in table.holding
	place  *list.Element // in table.order; nil if the entry must stay
}

// seenState is the state of a limit that this process last saw in the store. New rules have other limits, even for
// the same ID, and these find no state here.
type seenState struct {
	limit  *Limit // of the last charge
	result algo.Result
	seen   algo.Instant
	open   *openCharge // nil unless a settlement charges the limit
	backOff
	tiers []tierBackOff // of charges with other thresholds on the same count
}

// tierBackOff is the back-off of charges with the threshold most.
type tierBackOff struct {
	most    int64
	backOff backOff
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

// noticed is a notice that this process wrote: its limit, its percentage of a capacity, and the end of its period.
type noticed struct {
	limit    ID
	percent  int
	capacity int64
	end      int64
}

// heldState is the state of a limit, or of the share of a limit, in an outage.
type heldState struct {
	limit   *Limit
	machine algo.Machine // that of the limit, or that of an earlier version
	state   algo.State
}

// tracker is what this process holds of one limit of a subject: a lease or a counter, and the pressure
// on the subject.
type tracker struct {
	limit    *Limit
	lease    quota.Lease
	counter  quota.Counter
	pressure quota.Pressure
	// renewing is not nil while a request calls the store for a new lease or a synchronization. It
	// is closed when that request has the result.
	renewing chan struct{}
	err      error // error of the last call for a lease or a synchronization; nil if it succeeded
}

func newTable(most int) *table { return &table{most: most, entries: map[Subject]*entry{}} }

// nothing is the entry of a subject of which the table keeps nothing.
var nothing entry

// of returns the entry of a subject, to read it. The caller holds the lock.
func (t *table) of(s Subject) *entry {
	if e := t.entries[s]; e != nil {
		return e
	}
	return &nothing
}

// open returns the entry of a subject, to change it. After the change, the caller MUST call changed. The caller holds
// the lock.
func (t *table) open(s Subject) *entry {
	if e := t.entries[s]; e != nil {
		return e
	}
	return &entry{subject: s}
}

// changed takes over a change of an entry. It adds the entry or removes it if it is empty, and evicts others if there is
// no room. The caller holds the lock.
func (t *table) changed(e *entry) {
	sum := &t.fixed
	if e.place != nil {
		sum = &t.loose
	}
	*sum -= e.weight
	added := e.weight == 0
	e.weight = e.size()
	switch {
	case e.weight == 0:
		delete(t.entries, e.subject)
	case added:
		e.subject = e.subject.Clone() // the subject can share memory with a large request text
		t.entries[e.subject] = e
	}
	switch holds := len(e.held) > 0; {
	case holds && !e.holds:
		t.holding.Add(1)
	case !holds && e.holds:
		t.holding.Add(-1)
	}
	e.holds = len(e.held) > 0
	switch loose := e.weight > 0 && !e.holds && len(e.trackers) == 0; {
	case loose && e.place != nil:
		t.order.MoveToBack(e.place)
	case loose:
		e.place = t.order.PushBack(e)
	case e.place != nil:
		t.order.Remove(e.place)
		e.place = nil
	}
	if e.place == nil {
		t.fixed += e.weight
		return
	}
	for t.loose += e.weight; t.loose > t.most/6 && t.order.Len() > 1; {
		oldest := t.order.Front().Value.(*entry)
		oldest.seen, oldest.noticed = nil, nil
		t.changed(oldest)
	}
}

// An entry with at most entryStates states and entryLog bytes of logs takes about a kilobyte. A larger entry counts as
// several.
const (
	entryStates   = 4
	entryLog      = 512
	trackerStates = 2 // states that are as large as one tracker
)

// size returns the weight of e; 0 if it is empty.
func (e *entry) size() int {
	states := len(e.seen) + len(e.noticed) + len(e.held) + trackerStates*len(e.trackers)
	weight := (states + entryStates - 1) / entryStates
	for i := range e.seen {
		weight += len(e.seen[i].result.State.Entries)/entryLog + len(e.seen[i].tiers)
	}
	for i := range e.held {
		weight += len(e.held[i].state.Entries) / entryLog
	}
	return weight
}

// The parts of a table for entries that stay: all of it, for the requests of an outage, and half of it, for others.
func (t *table) forOutage() int { return t.most - t.most/6 }
func (t *table) forOthers() int { return (t.forOutage() + 1) / 2 }

// room reports whether the entries that stay weigh less than most. If not, it removes what has expired, at most once a
// second. The caller holds the lock.
func (t *table) room(now algo.Instant, most int) bool {
	if t.fixed < most {
		return true
	}
	if age := now.Sub(t.swept); age >= 0 && age < time.Second {
		return false
	}
	t.swept = now
	for _, e := range t.entries {
		if e.place == nil {
			e.expire(now)
			t.changed(e)
		}
	}
	return t.fixed < most
}

// expire removes idle trackers. It removes the counts of an outage if all of them have expired.
func (e *entry) expire(now algo.Instant) {
	e.drop(func(t *tracker) bool { return t.idle(now) })
	if !slices.ContainsFunc(e.held, func(s heldState) bool { return s.machine.Idle(s.state) > now }) {
		e.held = nil
	}
}

// drop removes trackers. Their leases end, so a receipt can no longer return quota to them.
func (e *entry) drop(which func(*tracker) bool) {
	e.trackers = slices.DeleteFunc(e.trackers, func(t *tracker) bool {
		if !which(t) {
			return false
		}
		t.lease.Serial++
		return true
	})
}

// idle reports whether t may be removed.
func (t *tracker) idle(now algo.Instant) bool {
	if t.renewing != nil || t.lease.Left(now) > 0 || t.pressure.Current(now) > 1 {
		return false
	}
	return t.counter.Idle(now)
}

// forget removes the states, leases and counters of a subject. It keeps trackers that a request renews, notices, and
// counts of an outage.
func (t *table) forget(s Subject) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.open(s)
	e.seen = nil
	e.drop(func(t *tracker) bool { return t.renewing == nil })
	t.changed(e)
}
