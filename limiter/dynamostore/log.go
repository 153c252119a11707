package dynamostore

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// logLayout is the layout of a log: a list of entries, its stamp, and the interval of the newest entry.
type logLayout struct{ plain }

// size implements layout. A list holds the entries of the largest debt, or expired ones.
func (logLayout) size(_ algo.Rate, m algo.Machine) (fixed, instants int) {
	return stampBytes + nameBytes + 3 + nameBytes + numberBytes(logIndex(math.MaxInt64)),
		entryBytes * int(max(longest(m.(*algo.Log)), m.MaxEntries()))
}

func (logLayout) read(item item, id string) (algo.State, error) {
	r := reader{item: item}
	p := r.stamp(id)
	s := p.state(r.instants(attribute(entriesAttribute, id)))
	return s, r.err
}

func (logLayout) write(_ item, id string, s algo.State, _ algo.Instant) map[string]types.AttributeValue {
	p := stamp{s.Newest, s.Refunds, int64(s.Entries.Len())}
	if n := s.Entries.Len(); n > 0 && s.Entries.At(n-1) == s.Newest { // the last entry of the list is this instant, and 0 takes ten bytes less
		p.newest = 0
	}
	return map[string]types.AttributeValue{
		attribute(newestAttribute, id):  number(logIndex(s.Newest)),
		attribute(stampAttribute, id):   p.value(),
		attribute(entriesAttribute, id): list(s.Entries),
	}
}

// renew implements layout. A rewritten list has a new generation.
func (logLayout) renew(_ *take, _ *view, s *algo.State) { s.Refunds = generation() }

// unknown implements layout. The refund of a charge needs the entries, which a state outside the store may lack.
func (logLayout) unknown(s algo.State) bool { return s.Entries == "" }

// stamp describes the list of a log since its last rewrite. Between two rewrites, entries are only appended. While
// the generation is the same, each entry therefore stays at its position.
type stamp struct {
	newest     algo.Instant // newest instant of all entries up to the last rewrite
	generation int64        // random; every rewrite and every trim sets another one
	settled    int64        // number of entries at the head of the list that count at their own instants
}

// generation returns a random number that identifies one rewrite of a list.
func generation() int64 { return 1 + rand.Int64N(1<<53-1) } //nolint:gosec // the number only distinguishes lists

func (p stamp) value() types.AttributeValue {
	return numbers(int64(p.newest), p.generation, p.settled)
}

func (r *reader) stamp(id string) (p stamp) {
	var newest int64
	r.tuple(attribute(stampAttribute, id), &newest, &p.generation, &p.settled)
	p.newest = algo.Instant(newest)
	return p
}

// state returns the state of a log whose list contains instants. An entry counts at its own instant or, if an earlier
// entry in the list is newer, at the instant of the earlier entry. State.Refunds has the generation, because a log
// does not count refunds.
func (p stamp) state(instants []algo.Instant) algo.State {
	newest := p.newest
	for i, at := range instants {
		newest = max(newest, at)
		if int64(i) >= p.settled {
			instants[i] = newest
		}
	}
	return algo.State{Newest: newest, Entries: algo.NewEntries(instants...), Refunds: p.generation}
}

// Time is divided into intervals of logInterval, half of algo.MaxSkew. An entry in the interval of now, or in the
// next one, is never too far ahead (algo.Machine.Ahead).
const logInterval = algo.MaxSkew / 2

// logIndex returns the index of the interval that contains an instant.
func logIndex(at algo.Instant) int64 { return int64(at) / int64(logInterval) }

// charge implements layout. It appends entries at the instant now. The list has room in three cases: the whole list is
// short enough, the list without the expired entries at its head is short enough, or the list is known and the charge
// replaces it by one without expired entries. The first two conditions do not depend on the newest entry, so concurrent
// appends do not collide.
func (layout logLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	l, s := v.current.Machine.(*algo.Log), v.current.State
	entries, at := attribute(entriesAttribute, v.id), attribute(stampAttribute, v.id)
	_, expired := l.Live(s, t.now)
	replace := int64(s.Entries.Len())+c.Cost > longest(l) || t.exact && l.Requests <= algo.MaxExact
	if next, ok := c.Apply(l, s, t.now); replace && ok && c.Cost > 0 && expired > 0 {
		next.Refunds = generation()
		e.requireSame(v.id, s)
		e.setAll(layout.write(nil, v.id, next, t.now))
		return
	}
	room := l.Requests - c.Cost
	if c.Force {
		room = l.MaxDebt() - c.Cost
	}
	ways := []string{e.absent(entries), e.sizeAtMost(entries, room)}
	if most := min(room+int64(expired), max(longest(l), l.MaxDebt())-c.Cost); most > room {
		ways = append(ways, e.sameGeneration(at, s)+" AND "+e.sizeAtMost(entries, most))
	}
	if !t.exact && !c.Force {
		ways = append(ways, t.agedRoom(e, l, entries, room)...)
	}
	e.require("(" + strings.Join(ways, " OR ") + ")")
	newest, now, known := attribute(newestAttribute, v.id), logIndex(t.now), logIndex(s.Newest)
	appended := t.now
	switch {
	case known <= now:
		e.require(e.absentOr(newest, "<=", e.number(now)))
	case known == now+1: // the newest entry is one interval ahead, so the charge does not change newest
		e.require(e.compare(newest, "=", e.number(known)))
	default: // known is further ahead: only the exact instants show whether an entry is too far ahead
		appended = s.Newest
		e.requireSame(v.id, s)
	}
	if c.Cost == 0 {
		return
	}
	if known <= now {
		e.setTo(newest, e.number(now))
	}
	instants := make([]algo.Instant, c.Cost)
	for i := range instants {
		instants[i] = appended
	}
	e.setTo(entries, "list_append(if_not_exists("+e.name(entries)+", "+e.value(list(""))+"), "+e.value(list(algo.NewEntries(instants...)))+")")
	e.setAtFirst(at, e.value(stamp{generation: generation()}.value()))
}

// longest returns the number of entries up to which charges append to the list of a log and leave expired entries in
// it. Three lists of small limits fit one write unit, unless the name of the subject or a debt is long.
func longest(l *algo.Log) int64 {
	if l.Requests <= algo.MaxExact {
		return algo.MaxExact
	}
	return l.MaxDebt()
}

// agedRoom returns conditions under which a small log that this process does not know has room, because its oldest
// entries have expired. Each condition names one entry: if this entry has expired, so have the entries before it. An
// entry counts at the newest instant before it in the list, which is less than two intervals later than the entry's
// own instant.
func (t *take) agedRoom(e *expression, l *algo.Log, entries string, room int64) (ways []string) {
	spare := min(longest(l), algo.MaxExact) - l.Requests
	for n, most := int64(1), 1+rungs(t.charges)/2; n <= spare && int64(len(ways)) < most; n *= 2 {
		expired := e.number(int64(t.now.Add(-l.Length - 2*logInterval)))
		ways = append(ways, e.sizeAtMost(entries, room+n)+" AND "+e.name(entries)+"["+strconv.FormatInt(n-1, 10)+"] <= "+expired)
	}
	return ways
}

func (e *expression) sizeAtMost(entries string, n int64) string {
	return "size(" + e.name(entries) + ") <= " + e.number(n)
}

// sameGeneration returns the condition that the list was not rewritten since the state s was
// read.
func (e *expression) sameGeneration(at string, s algo.State) string {
	return e.name(at) + "[1] = " + e.number(s.Refunds)
}

// requireSame adds the condition that the list has not changed since the state s was read.
func (e *expression) requireSame(id string, s algo.State) {
	e.require(e.sameGeneration(attribute(stampAttribute, id), s))
	e.require("size(" + e.name(attribute(entriesAttribute, id)) + ") = " + e.number(int64(s.Entries.Len())))
}

// exceeds implements layout.
func (logLayout) exceeds(t *take, v *view, c limiter.Charge) bool {
	l := v.current.Machine.(*algo.Log)
	live, _ := l.Live(v.current.State, t.now)
	return c.Force && live > l.MaxDebt()-c.Cost
}

// The list of a larger log is trimmed when at least trimLeast of its entries have expired. Only an append that makes the
// length reach or pass a multiple of trimEvery trims the list, so few concurrent appends trim it. A full list is trimmed
// if it has any expired entries.
const (
	trimLeast = 32
	trimEvery = 16
	// trimMost is the number of entries that one update removes. DynamoDB allows 300 operators in an
	// expression, and a removal takes two.
	trimMost = 100
)

// trim implements layout. An append and a removal cannot share an update, so the removal of expired entries is a
// separate update. It keeps entries that other requests append in between.
func (logLayout) trim(e *expression, item item, id string, h algo.Result, cost int64) *expression {
	l, s := h.Machine.(*algo.Log), h.State
	if l.Requests <= algo.MaxExact {
		return e
	}
	_, expired := l.Live(s, s.Newest)
	length := int64(s.Entries.Len())
	due := expired >= trimLeast && length/trimEvery != (length-cost)/trimEvery || length >= l.MaxDebt()
	if !due {
		return e
	} else if e == nil {
		e = newExpression()
	}
	n := min(expired, int(length)-1, trimMost-len(e.remove)) // keep the last entry, because an append can follow it
	if n <= 0 {
		return e
	}
	entries, at := attribute(entriesAttribute, id), attribute(stampAttribute, id)
	e.requireMachine(id, l)
	e.require(e.sameGeneration(at, s))
	element := func(i int) string { return e.name(entries) + "[" + strconv.Itoa(i) + "]" }
	for i := range n {
		e.remove = append(e.remove, element(i))
	}
	r := reader{item: item}
	p := r.stamp(id)
	e.set = append(e.set, element(n)+" = "+e.number(int64(s.Entries.At(n))))
	e.setTo(at, e.value(stamp{p.newest, generation(), max(1, p.settled-int64(n))}.value()))
	return e
}

// refund implements layout. It rewrites the list without the entries of the charge. The condition is an unchanged list: in the first
// attempt, unchanged since the charge; in a later attempt, since the attempt before.
func (logLayout) refund(r *refund, e *expression, i int) {
	l := r.results[i].Machine.(*algo.Log)
	id, seen := r.charges[i].Limit.ID.String(), r.results[i].State
	if r.seen != nil {
		seen = r.seen[i].State
	}
	after := l.Refund(seen, r.results[i].State, r.charges[i].Cost, 0)
	if after == seen {
		return
	}
	entries, at := attribute(entriesAttribute, id), attribute(stampAttribute, id)
	e.requireMachine(id, l)
	e.requireSame(id, seen)
	e.setTo(entries, e.value(list(after.Entries)))
	e.setTo(at, e.value(stamp{after.Newest, generation(), int64(after.Entries.Len())}.value()))
	r.given++
}
