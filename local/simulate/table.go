package simulate

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// table is a model of a DynamoDB table. Each item has a partition of its own, as after the
// best work of adaptive capacity, unless neighbours is set. The table as a whole has no limit
// unless throttled is set.
type table struct {
	*meter
	rate  float64 // write units a second of a partition, and so of an item
	items map[limiter.Subject]*item
	// neighbours reports whether a subject shares the one crowded partition; nil: none does.
	neighbours func(limiter.Subject) bool
	crowded    *partition
	// throttled reports whether the table as a whole throttles writes; nil: never.
	throttled func(at algo.Instant) bool
}

// partition is the capacity that the items of a key range share.
type partition struct{ writes, reads allowance }

// readsPerWrite is the ratio of the read units to the write units that a partition accepts in
// a second.
const readsPerWrite = 3

// item is one subject of the table.
type item struct {
	heat
	*partition
	state  algo.State
	exists bool
	// before is the state that stale reads return for replicaLag after written.
	before  algo.State
	written algo.Instant
}

func newTable(m *meter, rate float64) *table {
	return &table{meter: m, rate: rate, items: map[limiter.Subject]*item{}}
}

// find returns the item of subject. It creates a missing one.
func (t *table) find(subject limiter.Subject, at algo.Instant) *item {
	it := t.items[subject]
	if it == nil {
		it = &item{partition: t.place(subject, at)}
		t.items[subject] = it
	}
	return it
}

// place returns the partition of a new item.
func (t *table) place(subject limiter.Subject, at algo.Instant) *partition {
	shared := t.neighbours != nil && t.neighbours(subject)
	if shared && t.crowded != nil {
		return t.crowded
	}
	p := &partition{newAllowance(t.rate, at), newAllowance(readsPerWrite*t.rate, at)}
	if shared {
		t.crowded = p
	}
	return p
}

// reply is the answer of the table to a call.
type reply struct {
	state     algo.State // after the write, or the state that failed its condition
	exists    bool
	applied   bool
	throttled error // nil, ErrThrottled or ErrItemThrottled
}

// write makes one attempt. billed means that its request counts.
func (t *table) write(subject limiter.Subject, at algo.Instant, a *attempt, billed bool) reply {
	it := t.find(subject, at)
	if billed {
		t.calls++
	}
	if t.throttled != nil && t.throttled(at) {
		t.refuse(at)
		return reply{throttled: limiter.ErrThrottled}
	}
	if !it.writes.open(at) {
		t.refuse(at)
		return reply{throttled: limiter.ErrItemThrottled}
	}
	next, ok := a.test(it.state, it.exists)
	units := sizeUnits(it.state)
	if ok {
		units = max(units, sizeUnits(next))
		if at.Sub(it.written) >= replicaLag {
			it.before, it.written = it.state, at
		}
		it.state, it.exists = next, true
	}
	it.writes.spare -= units
	if billed {
		t.writes += int64(units)
	}
	t.warm(&it.heat, at, units)
	return reply{state: it.state, exists: it.exists, applied: ok}
}

// replicaLag is the age of the state that a read returns if it may be stale.
const replicaLag = 10 * time.Millisecond

// read reads an item, for one unit per 4 KB, rounded up, or for half of that if it may be stale.
func (t *table) read(subject limiter.Subject, at algo.Instant, stale, billed bool) reply {
	it := t.find(subject, at)
	units := float64((kilobytes(it.state) + 3) / 4)
	if stale {
		units /= 2
	}
	if billed {
		t.calls++
	}
	if !it.reads.open(at) {
		return reply{throttled: limiter.ErrItemThrottled}
	}
	it.reads.spare -= units
	if billed {
		t.reads += units
	}
	if stale && at.Sub(it.written) < replicaLag {
		return reply{state: it.before, exists: it.exists}
	}
	return reply{state: it.state, exists: it.exists}
}

// refund refunds a charge as limiter/dynamostore does, with conditional writes.
func (t *table) refund(subject limiter.Subject, at algo.Instant, m algo.Machine, charged algo.State, cost int64, late time.Duration) reply {
	it := t.find(subject, at)
	t.calls++
	next := m.Refund(it.state, charged, cost, late)
	if next == it.state {
		return reply{exists: it.exists}
	}
	if !it.writes.open(at) {
		t.refuse(at)
		return reply{throttled: limiter.ErrItemThrottled}
	}
	it.state = next
	it.writes.spare -= sizeUnits(next)
	return reply{state: next, exists: true, applied: true}
}

// The size of an item without the entries of a log, and of an entry.
const (
	itemBytes  = 200
	entryBytes = 12
)

func kilobytes(s algo.State) int { return (itemBytes + entryBytes*s.Entries.Len() + 1023) / 1024 }

// sizeUnits returns the write units of an item: one per KB, rounded up.
func sizeUnits(s algo.State) float64 { return float64(kilobytes(s)) }
