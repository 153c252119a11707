package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// table models a DynamoDB table. Each item has its own partition, as after DynamoDB's adaptive
// capacity has isolated it, except subjects for which neighbours returns true. The table as a whole
// is unlimited unless throttled is set.
type table struct {
	*meter
	rate  float64 // write units per second of a partition
	items map[limiter.Subject]*item
	// neighbours reports whether a subject is in the one partition that several items share. nil:
	// no subject is.
	neighbours func(limiter.Subject) bool
	crowded    *partition
	// throttled reports whether the whole table throttles writes at a time. nil: never.
	throttled func(at algo.Instant) bool
	shares    *memstore.Store // has the reports of adaptive shares
	entry     int             // bytes of a list's element
}

// partition is the capacity of a range of keys.
type partition struct{ writes, reads allowance }

// readsPerWrite is how many read units per second a partition accepts for each write unit.
const readsPerWrite = 3

// item is one subject of the table.
type item struct {
	heat
	*partition
	state  algo.State
	exists bool
	// padded is true if the item stores a previous window's count of 0 explicitly. A write that
	// replaces a whole window stores this 0; other writes omit it. A replacement succeeds only if
	// padded has not changed.
	padded bool
	// Stale reads return before until replicaLag after written.
	before  algo.State
	written algo.Instant
}

func newTable(m *meter, rate float64) (*table, error) {
	shares, err := memstore.New(memstore.Options{})
	return &table{meter: m, rate: rate, items: map[limiter.Subject]*item{}, shares: shares, entry: entryBytes}, err
}

// find returns the item of a subject, and creates it if it is missing.
func (t *table) find(subject limiter.Subject, at algo.Instant) *item {
	it := t.items[subject]
	if it == nil {
		it = &item{partition: t.place(subject, at)}
		t.items[subject] = it
	}
	return it
}

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

type reply struct {
	state     algo.State // state after the write, or the state for which the condition failed
	exists    bool
	padded    bool
	applied   bool
	throttled error // nil, ErrThrottled or ErrItemThrottled; for a report also an error of table.shares
}

// write makes one attempt. billed is true if the request counts in the results.
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
	next, ok := a.test(it)
	units := t.units(it.state)
	if ok {
		_, window := a.machine.(*algo.Window)
		it.padded = window && (a.replace || it.padded && next.Window == it.state.Window)
		units = max(units, t.units(next))
		if at.Sub(it.written) >= replicaLag {
			it.before, it.written = it.state, at
		}
		it.state, it.exists = next, true
	}
	t.charge(it, at, units, billed)
	return reply{state: it.state, exists: it.exists, padded: it.padded, applied: ok}
}

// report makes one call for all charges of a report of adaptive shares: one write, or one read if
// every cost is 0.
func (t *table) report(ctx context.Context, at, now algo.Instant, charges []limiter.Charge, results []algo.Result, billed bool) reply {
	subject := charges[0].Subject
	it := t.find(subject, at)
	if billed {
		t.calls++
	}
	switch {
	case !slices.ContainsFunc(charges, func(c limiter.Charge) bool { return c.Cost > 0 }):
		if !t.admitRead(it, at, 1, limiter.MayBeStale(ctx), billed) {
			return reply{throttled: limiter.ErrItemThrottled}
		}
	case !it.writes.open(at):
		t.refuse(at)
		return reply{throttled: limiter.ErrItemThrottled}
	default:
		t.charge(it, at, 1, billed)
	}
	taken, err := t.shares.Take(ctx, now, subject, charges, results)
	return reply{applied: taken, throttled: err}
}

// charge takes write units from an item's partition. If billed is true, they count in the results.
func (t *table) charge(it *item, at algo.Instant, units float64, billed bool) {
	it.writes.spare -= units
	if billed {
		t.writes += int64(units)
	}
	t.warm(&it.heat, at, units)
}

// admitRead takes read units, half as many if a stale answer is acceptable. It returns false if the
// read is throttled.
func (t *table) admitRead(it *item, at algo.Instant, units float64, stale, billed bool) bool {
	if stale {
		units /= 2
	}
	if !it.reads.open(at) {
		return false
	}
	if it.reads.spare -= units; billed {
		t.reads += units
	}
	return true
}

// replicaLag is how long after a write an eventually consistent read returns the earlier state.
const replicaLag = 10 * time.Millisecond

// read reads an item. It costs one unit per started 4 KB, or half a unit if a stale answer is
// acceptable.
func (t *table) read(subject limiter.Subject, at algo.Instant, stale, billed bool) reply {
	it := t.find(subject, at)
	if billed {
		t.calls++
	}
	if !t.admitRead(it, at, float64((t.kilobytes(it.state)+3)/4), stale, billed) {
		return reply{throttled: limiter.ErrItemThrottled}
	}
	if stale && at.Sub(it.written) < replicaLag {
		return reply{state: it.before, exists: it.exists, padded: it.padded}
	}
	return reply{state: it.state, exists: it.exists, padded: it.padded}
}

// correct corrects a charge with one conditional write, like limiter/dynamostore. A correction
// without effect costs a write too, because its condition fails.
func (t *table) correct(subject limiter.Subject, at algo.Instant, m algo.Machine, billed bool, correction func(algo.State) algo.State) reply {
	it := t.find(subject, at)
	if billed {
		t.calls++
	}
	if !it.writes.open(at) {
		t.refuse(at)
		return reply{throttled: limiter.ErrItemThrottled}
	}
	next := correction(it.state)
	units := max(t.units(it.state), t.units(next))
	if t.charge(it, at, units, billed); billed {
		t.settled += int64(units)
	}
	if next == it.state {
		return reply{exists: it.exists}
	}
	if _, ok := m.(*algo.Log); ok {
		next.Refunds++ // a list that was rewritten has a new generation
	}
	it.state = next
	return reply{state: next, exists: true, applied: true}
}

// Sizes in bytes: an item without its lists, an entry of a log, a slot.
const (
	itemBytes  = 200
	entryBytes = 12
	slotBytes  = 20
)

// kilobytes returns the size of an item in KB, rounded up.
func (t *table) kilobytes(s algo.State) int {
	return (itemBytes + t.entry*s.Entries.Len() + 1023) / 1024
}

// units returns the write units of an item, one per started KB.
func (t *table) units(s algo.State) float64 { return float64(t.kilobytes(s)) }
