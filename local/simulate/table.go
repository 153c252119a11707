package simulate

import (
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// table is a DynamoDB table, as far as a limiter notices. Each item has its own allowance
// of write units. So adaptive capacity has given each hot item a partition of its own already, which is
// the best that it can do. The table as a whole has no limit.
type table struct {
	*meter
	rate  float64 // units a second of an item
	items map[limiter.Subject]*item
}

// item is one subject of the table.
type item struct {
	heat
	allowance
	state  algo.State
	exists bool
}

func newTable(m *meter, rate float64) *table {
	return &table{meter: m, rate: rate, items: map[limiter.Subject]*item{}}
}

// find returns the item of subject, a new one if there is none.
func (t *table) find(subject limiter.Subject, at algo.Instant) *item {
	it := t.items[subject]
	if it == nil {
		it = &item{allowance: newAllowance(t.rate, at)}
		t.items[subject] = it
	}
	return it
}

// reply is what a call of the table returned.
type reply struct {
	state     algo.State // after the write, or what failed its condition
	exists    bool
	applied   bool
	throttled bool
}

// write makes one attempt. billed says that it is of a request that counts.
func (t *table) write(subject limiter.Subject, at algo.Instant, a *attempt, billed bool) reply {
	it := t.find(subject, at)
	if billed {
		t.calls++
	}
	if !it.open(at) {
		t.refuse(at)
		return reply{throttled: true}
	}
	next, ok := a.test(it.state, it.exists)
	units := sizeUnits(it.state)
	if ok {
		units = max(units, sizeUnits(next))
		it.state, it.exists = next, true
	}
	it.spare -= units
	if billed {
		t.writes += int64(units)
	}
	t.warm(&it.heat, at, units)
	return reply{state: it.state, exists: it.exists, applied: ok}
}

// read gets an item, consistently: a unit for each 4 KB begun.
func (t *table) read(subject limiter.Subject, at algo.Instant, billed bool) reply {
	it := t.find(subject, at)
	if billed {
		t.calls++
		t.reads += int64(kilobytes(it.state)+3) / 4
	}
	return reply{state: it.state, exists: it.exists}
}

// An item without entries of a log takes under 200 bytes, and an entry 12.
const (
	itemBytes  = 200
	entryBytes = 12
)

func kilobytes(s algo.State) int { return (itemBytes + entryBytes*s.Entries.Len() + 1023) / 1024 }

// sizeUnits returns the write units of an item: one for each KB begun.
func sizeUnits(s algo.State) float64 { return float64(kilobytes(s)) }
