package dynamostore

import (
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// windowLayout is the layout of a window: its newest index, and a count for each of the newest windows.
type windowLayout struct{ plain }

// indexBase is the base of a window's index in the name of its count. A large base makes the name
// short.
const indexBase = 36

// count returns the name of the attribute that counts a window of the limit id.
func count(id string, window int64) string {
	return string(countAttribute) + id + strconv.FormatInt(window, indexBase)
}

// size implements layout. An item contains the newest index and up to three counts: after a pause, it still has the
// counts of two old windows, and the next request adds a third.
func (windowLayout) size(_ algo.Rate, m algo.Machine) (fixed, instants int) {
	w := algo.WindowOf(m)
	index := w.Index(math.MaxInt64 - 4*algo.Instant(algo.MaxPeriod)) // the largest index that a decision can have
	count := nameBytes + len(strconv.FormatInt(index, indexBase)) + numberBytes(w.MaxDebt())
	return nameBytes + numberBytes(index) + 3*count, 0
}

func (windowLayout) read(item item, id string) (algo.State, error) {
	r := reader{item: item}
	newest := r.number(attribute(newestAttribute, id))
	s := algo.State{Window: newest, Count: r.number(count(id, newest)), Previous: r.number(count(id, newest-1))}
	return s, r.err
}

func (windowLayout) write(_ item, id string, s algo.State, _ algo.Instant) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attribute(newestAttribute, id): number(s.Window),
		count(id, s.Window):            number(s.Count),
		count(id, s.Window-1):          number(s.Previous),
	}
}

// charge implements layout.
func (windowLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	w := v.current.Machine.(*algo.Window)
	in := t.requireWindow(e, w, v)
	t.requireRoom(e, w, v, in, c)
	e.count(v.id, in, c.Cost)
}

// charged is the window that a charge counts in. newest and current are the names of the attributes with the newest index and
// with the count of this window.
type charged struct {
	index           int64
	newest, current string
}

// requireWindow adds the condition that the result is the window to charge. It is the later of two windows: the newest known
// window and the window of now.
func (t *take) requireWindow(e *expression, w *algo.Window, v *view) charged {
	s := v.current.State
	index, newest := max(w.Index(t.now), s.Window), attribute(newestAttribute, v.id)
	if index > w.Index(t.now) { // after a reset, the cached index can be newer than the index in the item
		e.require(e.compare(newest, "=", e.number(index)))
		if w.Ahead(s, t.now) { // the Skew in the item decides whether the state is clamped
			e.requireSkew(t.item, v.id)
		}
	} else {
		e.require(e.absentOr(newest, "<=", e.number(index)))
	}
	return charged{index, newest, count(v.id, index)}
}

// requireRoom adds the condition that the charged window has room for the charge c.
func (t *take) requireRoom(e *expression, w *algo.Window, v *view, in charged, c limiter.Charge) {
	switch {
	case c.Force:
		e.require(e.absentOr(in.current, "<=", e.number(w.MaxDebt()-c.Cost)))
	case w.Sliding:
		e.require(t.slidingRoom(e, w, v, in.index, c.Cost))
	default:
		e.require(e.absentOr(in.current, "<=", e.number(w.Requests-c.Cost)))
	}
}

// count adds the cost to the count of the charged window, and removes dead counts.
func (e *expression) count(id string, in charged, cost int64) {
	if cost == 0 {
		return
	}
	e.add(in.current, cost)
	e.setTo(in.newest, e.number(in.index))
	for dead := in.index - 3; dead < in.index-1; dead++ {
		e.remove = append(e.remove, e.name(count(id, dead)))
	}
}

// requireSkew adds the condition that the Skew of the limit id has not changed.
func (e *expression) requireSkew(item item, id string) {
	skew := attribute(skewAttribute, id)
	if value, ok := item[skew]; ok {
		e.require(e.compare(skew, "=", e.value(value)))
	} else {
		e.require(e.absent(skew))
	}
}

// slidingRoom returns the condition that a sliding window has room for the cost.
func (t *take) slidingRoom(e *expression, w *algo.Window, v *view, index, cost int64) string {
	s := v.current.State
	current, previous := count(v.id, index), count(v.id, index-1)
	// After the first charge of a window, the count of the window before it no longer grows.
	if room := w.Room(index, t.now, s.Previous, cost); s.Window == index && room >= 0 {
		return e.absentOr(previous, "<=", e.number(s.Previous)) + " AND " + e.absentOr(current, "<=", e.number(room))
	}
	// While the current window has no count, the previous count can still grow, so the condition also
	// bounds the previous count.
	ways := []string{e.absent(current) + " AND " + e.absentOr(previous, "<=", e.number(w.PreviousRoom(index, t.now, cost)))}
	if t.exact {
		before := w.At(s, t.now).Previous
		ways = append(ways, e.absentOr(previous, "<=", e.number(before))+" AND "+e.absentOr(current, "<=",
			e.number(w.Room(index, t.now, before, cost))))
		return "(" + strings.Join(ways, " OR ") + ")"
	}
	// No count is known. Each rung of the ladder accepts previous counts up to a bound. It bounds the
	// current count as if the previous count were at this bound.
	rungs := rungs(t.charges)
	for rung := range rungs + 1 {
		most := w.Requests * rung / rungs
		room := w.Room(index, t.now, most, cost)
		if room < 0 {
			break
		}
		test := e.absent(previous)
		if rung > 0 {
			test = e.compare(previous, "<=", e.number(most))
		}
		ways = append(ways, test+" AND "+e.compare(current, "<=", e.number(room)))
	}
	return "(" + strings.Join(ways, " OR ") + ")"
}

// rungs returns the number of steps into which a ladder divides the previous count: eight, or as many
// as fit. DynamoDB allows 300 operators in a condition. A window takes 18 operators, four for each
// step, and those of requireMoved.
func rungs(charges []limiter.Charge) int64 {
	operators := 280
	for _, c := range charges {
		if c.Limit.Regions() != nil {
			operators -= 2 * movedOperators
		}
	}
	return int64(max(1, min(8, (operators/len(charges)-18)/4)))
}

func (windowLayout) exceeds(t *take, v *view, c limiter.Charge) bool {
	w := algo.WindowOf(v.current.Machine)
	return c.Force && w.At(v.current.State, t.now).Count > w.MaxDebt()-c.Cost
}

// refund implements layout. It gives the charge back to the window that was charged.
func (windowLayout) refund(r *refund, e *expression, i int) {
	id, cost, charged := r.charges[i].Limit.ID.String(), r.charges[i].Cost, r.results[i].State
	if r.seen != nil {
		if s := r.seen[i].State; s.Window == charged.Window && s.Count < cost ||
			s.Window == charged.Window+1 && s.Previous < cost ||
			s.Window < charged.Window || s.Window > charged.Window+1 {
			return
		}
	}
	newest, counted := attribute(newestAttribute, id), count(id, charged.Window)
	e.requireMachine(id, r.results[i].Machine)
	e.require("(" + e.compare(newest, "=", e.number(charged.Window)) + " OR " + e.compare(newest, "=", e.number(charged.Window+1)) + ")")
	e.require(e.compare(counted, ">=", e.number(cost)))
	e.setTo(counted, e.name(counted)+" - "+e.number(cost))
	r.given++
}

// dead implements layout. The counts of windows before the previous window are dead. If there are any, the limit is
// crowded with more than countsMost counts.
func (windowLayout) dead(item item, id string, s algo.State) (names []string, crowded bool) {
	names, counts := item.windowsBefore(s.Window-1, countAttribute, id)
	return names, len(names) > 0 && counts > countsMost
}

// windowsBefore returns the attributes with this letter that the item has of windows before index, and the number of those of
// all windows.
func (item item) windowsBefore(index int64, letter rune, id string) (names []string, all int) {
	prefix := attribute(letter, id)
	for name := range item {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			all++
			if w, err := strconv.ParseInt(rest, indexBase, 64); err == nil && w < index {
				names = append(names, name)
			}
		}
	}
	return names, all
}
