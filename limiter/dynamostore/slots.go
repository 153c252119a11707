package dynamostore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// slotsLayout is the layout of slots: a map of them, and the interval of the newest slot.
type slotsLayout struct{ plain }

// size implements layout.
func (slotsLayout) size(_ algo.Rate, m algo.Machine) (fixed, instants int) {
	return nameBytes + 3 + nameBytes + numberBytes(logIndex(math.MaxInt64)), slotBytes * int(m.Capacity())
}

// write implements layout. The slots in the item keep their keys. The interval of the newest slot is written even if
// there is no slot, because tidy reads it.
func (slotsLayout) write(item item, id string, s algo.State, now algo.Instant) map[string]types.AttributeValue {
	present, _ := item.slotsOf(id)
	return map[string]types.AttributeValue{
		attribute(newestAttribute, id): number(logIndex(max(now, newest(s)))),
		attribute(slotsAttribute, id):  slotsValue(present, s),
	}
}

// busy implements layout. Slots are busy if the item has their map.
func (slotsLayout) busy(item item, id string, h limiter.Held, _ algo.Instant) (busy, known bool) {
	_, exists := item.slotsOf(id)
	return exists || item == nil && h.State.Entries != "", true
}

// mostSlots is the largest number of slots that a map can hold.
const mostSlots = 2 * algo.MaxSlots

// newSlot returns a random number for a charge's last slot. The other slots of the charge get the numbers before it.
// The highest six bits make the key of a slot begin with a letter, so that no key looks like a number.
func newSlot() int64 { return mostSlots + rand.Int64N(52<<42-mostSlots) } //nolint:gosec // the number only distinguishes slots

// slotKey returns the key of slot i of a charge, counting from the last one: 8 characters.
func slotKey(last int64, i int) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(last-int64(i)))
	return base64.RawURLEncoding.EncodeToString(b[2:])
}

// slotsTaken is the number of slots that this process has taken, from a random number on.
var slotsTaken atomic.Int64

func init() { slotsTaken.Store(rand.Int64N(algo.SlotNumbers)) } //nolint:gosec // the number only distinguishes slots

// newEntry returns the entry of the last of n slots that are taken at the instant now. Another process can use the same
// entry. The keys distinguish the slots in the item; the entries distinguish them in the states that a process keeps.
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

// slotsOf returns the slots of the limit id by key, and whether the item has their map.
func (item item) slotsOf(id string) (slots map[string]types.AttributeValue, ok bool) {
	m, ok := item[attribute(slotsAttribute, id)].(*types.AttributeValueMemberM)
	if !ok {
		return nil, false
	}
	return m.Value, true
}

// read implements layout. The entries are in order of their instants.
func (slotsLayout) read(item item, id string) (algo.State, error) {
	r, name := reader{item: item}, attribute(slotsAttribute, id)
	slots, ok := item.slotsOf(id)
	if v := item[name]; v != nil && !ok {
		r.fail(name, "a %T, want a map", v)
	}
	instants := make([]algo.Instant, 0, len(slots))
	for _, v := range slots {
		instants = append(instants, algo.Instant(r.parse(name, v)))
	}
	slices.Sort(instants)
	return algo.State{Entries: algo.NewEntries(instants...)}, r.err
}

// slotsValue returns the map of the slots in s. A slot in old keeps its key, so that its holder can
// release it. New slots get consecutive numbers down from s.Refunds, first the slot s.Newest and those before it.
func slotsValue(old map[string]types.AttributeValue, s algo.State) types.AttributeValue {
	missing := map[string]int{} // number of slots without a key, by entry
	for i := range s.Entries.Len() {
		missing[instantText(s.Entries.At(i))]++
	}
	m := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if at, ok := old[key].(*types.AttributeValueMemberN); ok && missing[at.Value] > 0 {
			missing[at.Value]--
			m.Value[key] = at
		}
	}
	added := 0
	add := func(from, to int) {
		for i := to - 1; i >= from; i-- {
			if at := instantText(s.Entries.At(i)); missing[at] > 0 {
				missing[at]--
				m.Value[slotKey(s.Refunds, added)] = &types.AttributeValueMemberN{Value: at}
				added++
			}
		}
	}
	last := s.Entries.Until(s.Newest)
	add(0, last)
	add(last, s.Entries.Len())
	return m
}

func instantText(i algo.Instant) string { return number(int64(i)).(*types.AttributeValueMemberN).Value }

// newest returns the instant of the newest slot; 0 without slots.
func newest(s algo.State) algo.Instant {
	if s.Entries == "" {
		return 0
	}
	return s.Entries.At(s.Entries.Len() - 1)
}

// maxExpired is the number of expired slots that one update removes, for all limits together. DynamoDB
// allows 4 KB and 300 operators in an expression. To remove more, the update replaces the whole map.
const maxExpired = 60

// expiredSlots returns the keys of the expired slots of v if a charge has no room without their removal.
func (t *take) expiredSlots(v *view, c limiter.Charge) (keys []string, needed bool) {
	l := v.current.Machine.(*algo.Slots)
	if int64(v.current.State.Entries.Len()) <= slotsRoom(l, c) {
		return nil, false
	}
	slots, _ := t.item.slotsOf(v.id)
	_, n := l.Live(v.current.State, t.now)
	if n == 0 {
		return nil, true
	}
	latest := v.current.State.Entries.At(n - 1)
	r := reader{item: t.item}
	for key, at := range slots {
		if algo.Instant(r.parse(key, at)) <= latest {
			keys = append(keys, key)
		}
	}
	return keys, true
}

// slotsRoom returns the largest number of slots with which the limit allows the charge c.
func slotsRoom(l *algo.Slots, c limiter.Charge) int64 {
	if c.Force {
		return l.MaxDebt() - c.Cost
	}
	return l.Requests - c.Cost
}

// charge implements layout. It adds slots. The condition bounds the size of the map, so concurrent charges and releases do
// not collide. If expired slots take the room, the update removes them, on the condition that they still
// exist. An update cannot add to an absent map, so the first charge creates it.
func (slotsLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	slots, room, exists := attribute(slotsAttribute, v.id), slotsRoom(v.current.Machine.(*algo.Slots), c), v.busy
	if t.exact {
		_, exists = t.item.slotsOf(v.id)
	}
	expired, needed := t.expiredSlots(v, c)
	switch {
	case !exists:
		e.require(e.absent(slots))
	// Only a charge of cost 0 gets here: other charges rewrite the map (exceeds).
	case t.exact && needed && len(expired) > t.mostExpired():
		e.requireState(t.item, v.id, v.held)
	case t.exact && needed:
		e.require("size(" + e.name(slots) + ") > " + e.number(room))
		e.require(e.sizeAtMost(slots, room+int64(len(expired))))
		e.requireSlots(slots, expired)
	default:
		e.require(e.sizeAtMost(slots, room))
	}
	if c.Cost > 0 {
		v.entry = cmp.Or(v.entry, newEntry(t.now, c.Cost))
	}
	t.requireNewest(e, v, c.Cost)
	if c.Cost == 0 {
		return
	}
	if t.exact {
		e.removeSlots(slots, expired)
	}
	v.slot = cmp.Or(v.slot, newSlot())
	if !exists {
		added := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{}}
		for i := range int(c.Cost) {
			added.Value[slotKey(v.slot, i)] = number(int64(v.entry) - int64(i))
		}
		e.setTo(slots, e.value(added))
		return
	}
	for i := range int(c.Cost) {
		e.set = append(e.set, e.slot(slots, slotKey(v.slot, i))+" = "+e.number(int64(v.entry)-int64(i)))
	}
}

func (t *take) mostExpired() int { return maxExpired / len(t.charges) }

func (e *expression) slot(slots, key string) string { return e.name(slots) + "." + e.name(key) }

func (e *expression) requireSlots(slots string, keys []string) {
	for _, key := range keys {
		e.require("attribute_exists(" + e.slot(slots, key) + ")")
	}
}

func (e *expression) removeSlots(slots string, keys []string) {
	for _, key := range keys {
		e.remove = append(e.remove, e.slot(slots, key))
	}
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

// exceeds implements layout. A charge can need the removal of more expired slots than one update can remove by key.
func (slotsLayout) exceeds(t *take, v *view, c limiter.Charge) bool {
	l := v.current.Machine.(*algo.Slots)
	if live, _ := l.Live(v.current.State, t.now); c.Force && live > l.MaxDebt()-c.Cost {
		return true
	}
	keys, _ := t.expiredSlots(v, c)
	return len(keys) > t.mostExpired()
}

// renew implements layout. It gives a rewrite without new slots numbers of its own, so that no later attempt that takes
// slots has the same.
func (slotsLayout) renew(t *take, v *view, s *algo.State) {
	s.Refunds = newSlot()
	if t.passes {
		v.slot, v.entry = cmp.Or(v.slot, s.Refunds), s.Newest
		s.Refunds = v.slot
	}
}

// holds reports whether an item has the slots of this decision. If an update reaches DynamoDB twice, the
// second copy fails, because the first copy has taken the slots.
func (t *take) holds(item item) bool {
	for i := range t.views {
		v := &t.views[i]
		if v.slot == 0 {
			continue
		}
		slots, _ := item.slotsOf(v.id)
		if _, ok := slots[slotKey(v.slot, 0)]; ok {
			return true
		}
	}
	return false
}

// refund implements layout. It releases slots. The first attempt assumes that the item has them. The condition names only
// these slots, so it does not collide with other charges and releases, or with changed parameters.
func (slotsLayout) refund(r *refund, e *expression, i int) {
	id, slots := r.charges[i].Limit.ID.String(), attribute(slotsAttribute, r.charges[i].Limit.ID.String())
	present, _ := r.item.slotsOf(id)
	var keys []string
	for j := range int(r.charges[i].Cost) {
		key := slotKey(r.results[i].State.Refunds, j)
		if _, ok := present[key]; ok || r.seen == nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return
	}
	e.requireSlots(slots, keys)
	e.removeSlots(slots, keys)
	r.given++
}

// idle implements layout. If all slots are released, it returns the end of the newest slot's interval. If tidy removed
// the map of the slots earlier, the next charge would need a second write, which creates the map again.
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
