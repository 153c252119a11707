package dynamostore

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// slotsLayout is the layout of slots: a set of their entries, and the interval of the newest slot.
type slotsLayout struct{ plain }

// size implements layout.
func (slotsLayout) size(_ algo.Rate, m algo.Machine) (fixed, instants int) {
	return 2*nameBytes + numberBytes(logIndex(math.MaxInt64)), slotBytes * int(m.Capacity())
}

func (slotsLayout) read(item item, id string) (algo.State, error) {
	r := reader{item: item}
	return algo.State{Entries: algo.NewEntries(r.set(attribute(slotsAttribute, id))...)}, r.err
}

// write implements layout. The interval of the newest slot is written even if there is no slot, because idle reads it.
// DynamoDB has no empty sets: for a condition, which has no item, write names one.
func (slotsLayout) write(item item, id string, s algo.State, now algo.Instant) map[string]types.AttributeValue {
	all := map[string]types.AttributeValue{attribute(newestAttribute, id): number(logIndex(max(now, newest(s))))}
	if item == nil || s.Entries != "" {
		all[attribute(slotsAttribute, id)] = set(s.Entries)
	}
	return all
}

// slotsTaken is the number of slots that this process has taken, from a random number on.
var slotsTaken atomic.Int64

func init() { slotsTaken.Store(rand.Int64N(algo.SlotNumbers)) } //nolint:gosec // the number only distinguishes slots

// newEntry returns the entry of the last of n slots that are taken at the instant now. The other slots of the charge get
// the entries before it. Another process can use the same entry: the condition of a charge excludes that.
func newEntry(now algo.Instant, n int64) algo.Instant {
	return algo.SlotStart(now) + algo.Instant(max(n-1, slotsTaken.Add(n%algo.SlotNumbers)%algo.SlotNumbers))
}

// next implements layout. New slots get new entries.
func (l slotsLayout) next(v *view, c limiter.Charge, now algo.Instant) (next algo.State, ok bool) {
	if c.Cost == 0 {
		return l.plain.next(v, c, now)
	}
	v.entry = cmp.Or(v.entry, newEntry(now, c.Cost))
	s := v.current.State
	s.Newest = v.entry - algo.Instant(c.Cost) // the new slots follow this entry
	next, ok = c.Apply(v.current.Machine, s, now)
	if next == s {
		return v.current.State, ok
	}
	return next, ok
}

// newest returns the instant of the newest slot; 0 without slots.
func newest(s algo.State) algo.Instant {
	if s.Entries == "" {
		return 0
	}
	return s.Entries.At(s.Entries.Len() - 1)
}

// slotsRoom returns the largest number of slots with which the limit allows the charge c.
func slotsRoom(l *algo.Slots, c limiter.Charge) int64 {
	if c.Force {
		return l.MaxDebt() - c.Cost
	}
	return l.Requests - c.Cost
}

// charge implements layout. It adds slots. The condition bounds the size of the set, and excludes only the entries of the
// new slots, so concurrent charges and releases do not collide.
func (slotsLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	slots, room := attribute(slotsAttribute, v.id), slotsRoom(v.current.Machine.(*algo.Slots), c)
	if t.exact && int64(v.current.State.Entries.Len()) > room { // a charge of cost 0: other charges rewrite the set (exceeds)
		e.requireState(t.item, v.id, v.held)
	} else {
		e.require("(" + e.absent(slots) + " OR " + e.sizeAtMost(slots, room) + ")")
	}
	if c.Cost > 0 && (v.entry == 0 || e.taken(v, c.Cost)) {
		v.entry = newEntry(t.now, c.Cost)
	}
	t.requireNewest(e, v, c.Cost)
	if c.Cost == 0 {
		return
	}
	added := slotsOf(v.entry, c.Cost)
	for i := range added.Len() {
		e.require("NOT contains(" + e.name(slots) + ", " + e.number(int64(added.At(i))) + ")")
	}
	e.adds = append(e.adds, e.name(slots)+" "+e.value(set(added)))
}

// slotsOf returns the entries of n slots, of which last is the last one.
func slotsOf(last algo.Instant, n int64) algo.Entries {
	all := make([]algo.Instant, n)
	for i := range all {
		all[i] = last - algo.Instant(n-1) + algo.Instant(i)
	}
	return algo.NewEntries(all...)
}

// taken reports whether the item has a slot with an entry of the new ones.
func (e *expression) taken(v *view, n int64) bool {
	before := v.current.State.Entries
	return before.Until(v.entry) > before.Until(v.entry-algo.Instant(n))
}

// requireNewest adds the condition that no slot is too far ahead of the clock, as for a log. It keeps the
// interval of the newest slot up to date.
func (t *take) requireNewest(e *expression, v *view, cost int64) {
	name, now, seen := attribute(newestAttribute, v.id), logIndex(t.now), logIndex(newest(v.current.State))
	if !t.exact && seen > now+1 { // other slots of that interval, which the cache lacks, can be too far ahead
		seen = now
	}
	known := seen
	if t.exact {
		r := reader{item: t.item}
		known = r.number(name)
	}
	switch {
	case known <= now:
		e.require(e.absentOr(name, "<=", e.number(now)))
	case known == now+1: // the charge does not change the interval
		e.require(e.compare(name, "=", e.number(known)))
		return
	default: // only the exact slots show whether a slot is too far ahead, or has been released
		e.requireState(t.item, v.id, v.held)
	}
	if cost > 0 {
		e.setTo(name, e.number(max(logIndex(v.entry), seen)))
	}
}

// exceeds implements layout. The set is rewritten without expired slots if they take the room.
func (slotsLayout) exceeds(_ *take, v *view, c limiter.Charge) bool {
	return int64(v.current.State.Entries.Len()) > slotsRoom(v.current.Machine.(*algo.Slots), c)
}

// renew implements layout.
func (slotsLayout) renew(t *take, v *view, s *algo.State) {
	if t.passes {
		v.entry = s.Newest
	}
}

// refund implements layout. It releases slots. The first attempt assumes that the item has them. The condition names only
// these slots, so it does not collide with other charges and releases, or with changed parameters.
func (slotsLayout) refund(r *refund, e *expression, i int) {
	id, slots := r.charges[i].Limit.ID.String(), slotsOf(r.results[i].State.Newest, r.charges[i].Cost)
	if r.seen != nil {
		present := r.seen[i].State.Entries
		slots = present[:8*present.Until(slots.At(slots.Len()-1))].From(present.Until(slots.At(0) - 1))
	}
	if slots == "" {
		return
	}
	name := e.name(attribute(slotsAttribute, id))
	for j := range slots.Len() {
		e.require("contains(" + name + ", " + e.number(int64(slots.At(j))) + ")")
	}
	e.deletes = append(e.deletes, name+" "+e.value(set(slots)))
	r.given++
}

// idle implements layout. If all slots are released, it returns the end of the newest slot's interval: to remove and write
// the attributes of the limit for each request would cost a write.
func (l slotsLayout) idle(item item, id string, h algo.Result) algo.Instant {
	if h.State.Entries != "" {
		return l.plain.idle(item, id, h)
	}
	r := reader{item: item}
	return algo.Instant((r.number(attribute(newestAttribute, id)) + 1) * int64(logInterval))
}

// releases returns the update that releases slots and makes no other correction.
func (r *refund) releases() *expression {
	e := newExpression()
	for i, c := range r.charges {
		if algo.TakesSlots(r.results[i].Machine) && c.Cost > 0 {
			slotsLayout{}.refund(r, e, i)
		}
	}
	return e
}
