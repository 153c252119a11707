package dynamostore

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// take is one decision: the known state of the item, and the next attempt.
type take struct {
	now     algo.Instant
	charges []limiter.Charge
	results []algo.Result

	// exact means that an attempt of this decision has read the item, and the views show that item. Before
	// that, the views come from the denial cache or are empty.
	exact   bool
	item    item
	views   []view
	passes  bool // the limits allow every charge; valid if exact
	changed bool // the state of a limit must be converted, clamped or given a Skew; valid if exact
}

// view is the known state of one charged limit.
type view struct {
	id      string
	held    limiter.Held // the state that the item stores
	current limiter.Held // held after the conversion and the clamp that the charge needs
	stale   bool         // the charge needs one of them
	changed bool         // the charge writes it
	clamped bool         // an attempt of this decision has clamped the state
	refuses bool         // the state has no room for the charge; valid if exact
	capped  bool         // the charge exceeds the max debt, or needs the room of expired slots
	next    algo.State   // the state after the charge
	guessed bool         // no cached state shows the bucket as busy, so busy is a guess
	busy    bool         // a bucket is busy
	entry   algo.Instant // entry of the last slot that the charge takes, or 0
}

func newTake(now algo.Instant, charges []limiter.Charge, results []algo.Result, g *guesses) *take {
	t := &take{now: now, charges: charges, results: results, views: make([]view, len(charges))}
	for i, c := range charges {
		v := &t.views[i]
		v.id = c.Limit.ID.String()
		v.current.Machine = c.Limit.Machine()
		if hint := c.Limit.View(results[i]); useful(hint, c.Limit, now) {
			v.current.Result = algo.Result{Machine: hint.Machine, State: hint.State}
		}
		var known bool
		v.busy, known = busy(v.current, now)
		v.guessed = known && !v.busy
		if v.guessed {
			v.busy = g.busy(c.Limit.ID)
		}
	}
	return t
}

// useful reports whether the state of a hint can be expected in the item. A state that is ahead needs the Skew in the item,
// and one of another list of regions a conversion, so the store reads the item first.
func useful(hint algo.Result, limit *limiter.Limit, now algo.Instant) bool {
	m := hint.Machine
	return m != nil && !m.Ahead(hint.State, now) && (limit.Is(m) || !algo.NewList(m, limit.Machine()))
}

func (t *take) attempts() int { return len(t.charges) + 2 + contended }

// teach corrects the guesses by the item that an attempt found or wrote.
func (t *take) teach(g *guesses, applied bool) {
	for i := range t.views {
		v := &t.views[i]
		if !v.guessed {
			continue
		}
		was, known := v.busy, true
		if !applied {
			was, known = busy(v.held, t.now)
		}
		if known {
			g.learn(t.charges[i].Limit.ID, was)
		}
	}
}

// hopeless reports whether the answer needs no write: every charge has cost 0, or one charge can never
// be allowed. It also reports whether a charge has no condition, because it exceeds what the region is known to have of a
// shared limit. A read is cheaper than a failed condition.
func (t *take) hopeless() bool {
	looks := true
	for i, c := range t.charges {
		if most := t.views[i].current.Machine.Capacity(); c.Cost > most && (!c.Force || c.Cost > 2*most) {
			return true
		}
		if w, ok := t.views[i].current.Machine.(*algo.Shared); ok && !c.Force && w.Room(w.At(t.views[i].current.State, t.now), t.now,
			c.Cost) < 0 {
			return true
		}
		looks = looks && c.Cost == 0
	}
	return looks
}

// learn updates the views from the current item.
func (t *take) learn(item item) error {
	t.exact, t.item, t.passes, t.changed = true, item, true, false
	for i, c := range t.charges {
		v := &t.views[i]
		var err error
		v.held, err = item.held(v.id, c.Limit)
		if err != nil {
			return err
		}
		v.current, v.stale = v.held.Current(c.Limit, t.now)
		v.changed = v.stale && c.Cost > 0
		t.changed = t.changed || v.changed
		layout := layoutOf(v.current.Machine)
		var ok bool
		v.next, ok = layout.next(v, c, t.now)
		v.capped = c.Cost > 0 && layout.exceeds(t, v, c)
		v.refuses = !ok
		t.passes = t.passes && ok
	}
	return nil
}

// noteClamped records the clamps that an attempt has written, because the new item does not show them.
func (t *take) noteClamped() {
	for i := range t.views {
		v := &t.views[i]
		v.clamped = v.clamped || v.current.Clamped
	}
}

// decided reports whether the item determines the answer: a limit refuses, or no charge changes a state. The max debt
// can leave nothing of a forced charge.
func (t *take) decided() bool {
	if !t.exact || t.changed {
		return false
	}
	for i := range t.views {
		if v := &t.views[i]; t.passes && v.next != v.current.State {
			return false
		}
	}
	return true
}

// report writes the states of the item to results.
func (t *take) report() {
	for i := range t.views {
		v := &t.views[i]
		t.results[i] = v.current.Result
		t.results[i].Clamped = v.clamped || v.current.Clamped
		if algo.TakesSlots(v.current.Machine) {
			t.results[i].State.Newest = v.entry
		}
	}
}

// attempt returns the update that charges everything. If the item refuses, attempt returns the update
// that writes the conversions and clamps that led to the refusal.
func (t *take) attempt() *expression {
	e := newExpression()
	horizon := time.Duration(0)
	for i, c := range t.charges {
		v := &t.views[i]
		horizon = max(horizon, c.Limit.Horizon)
		switch {
		case v.changed, v.capped && t.passes:
			t.rewrite(e, v)
		case t.exact && !t.passes: // nothing is charged
			t.requireAnswer(e, v, c)
		case t.exact && v.stale: // a charge of cost 0 does not write, even if the state needs a conversion or a clamp
			e.requireState(t.item, v.id, v.held)
		default:
			t.charge(e, v, c)
		}
	}
	e.setTo(TTLAttribute, e.number(expiry(t.now, horizon)))
	return e
}

// expiryMargin is added to the time for which an item is needed. It covers skewed clocks and delays.
const expiryMargin = time.Hour

func expiry(now algo.Instant, horizon time.Duration) int64 {
	return now.Add(horizon + expiryMargin + time.Second - 1).Time().Unix()
}

// requireAnswer adds a condition to an update that stores conversions with a refusal. The condition for the limit
// that refuses is an unchanged state. For other limits it is unchanged parameters. Without it, other requests could
// see a conversion without the refusal that caused it.
func (t *take) requireAnswer(e *expression, v *view, c limiter.Charge) {
	switch {
	case v.refuses:
		e.requireState(t.item, v.id, v.held)
	case c.Cost > 0:
		e.requireParameters(v, c.Limit)
	}
}

// requireParameters adds the condition that the item has the parameters of v.current. value is the placeholder
// of their fingerprint. same reports whether the limit has these parameters.
func (e *expression) requireParameters(v *view, limit *limiter.Limit) (value string, same bool) {
	fingerprint, same := limit.Fingerprint(), v.current.Machine == limit.Machine()
	if !same {
		fingerprint = v.current.Machine.Fingerprint()
	}
	f := attribute(fingerprintAttribute, v.id)
	value = e.text(fingerprint)
	if same {
		e.require(e.absentOr(f, "=", value))
	} else { // parameters of older rules need a conversion first, so the condition requires the version too
		e.require(e.compare(f, "=", value))
		e.require(e.compare(attribute(versionAttribute, v.id), ">=", e.number(limit.Version)))
	}
	return value, same
}

// charge adds the charge c to the update. The condition of the update fails if the item has other parameters
// than v.current.
func (t *take) charge(e *expression, v *view, c limiter.Charge) {
	value, same := e.requireParameters(v, c.Limit)
	if c.Force && c.Cost == 0 {
		return // a forced charge of cost 0 is allowed in any state, even if a slow clock sees a debt above the max debt
	}
	layoutOf(v.current.Machine).charge(t, e, v, c)
	if c.Cost > 0 && same {
		e.setTo(attribute(fingerprintAttribute, v.id), value)
		e.setAtFirst(attribute(versionAttribute, v.id), e.number(c.Limit.Version))
	}
}

// rewrite replaces the whole state of a limit if the item still holds the state that was read.
func (t *take) rewrite(e *expression, v *view) {
	next := v.current
	if t.passes {
		next.State = v.next
	}
	layout := layoutOf(next.Machine)
	layout.renew(t, v, &next.State)
	e.requireState(t.item, v.id, v.held)
	e.replace(t.item, v.id, next, t.now)
}

// replace writes the whole state of the limit id, and removes what the item has of another state.
func (e *expression) replace(item item, id string, next limiter.Held, now algo.Instant) {
	keep := layoutOf(next.Machine).write(item, id, next.State, now)
	if next.Skew != (algo.Skew{}) {
		keep[attribute(skewAttribute, id)] = numbers(int64(next.Skew.Since), next.Skew.Newest)
	}
	for _, name := range item.stateOf(id) {
		if _, ok := keep[name]; !ok {
			e.remove = append(e.remove, e.name(name))
		}
	}
	e.setAll(keep)
	e.setTo(attribute(fingerprintAttribute, id), e.text(next.Machine.Fingerprint()))
	e.setTo(attribute(versionAttribute, id), e.number(next.Version))
}

// requireState adds the condition that the item still holds the state of the limit id that was read.
func (e *expression) requireState(item item, id string, held limiter.Held) {
	names := []string{attribute(fingerprintAttribute, id)}
	if held.Machine != nil {
		names = slices.AppendSeq(names, maps.Keys(layoutOf(held.Machine).write(nil, id, held.State, 0)))
		names = append(names, attribute(skewAttribute, id))
	}
	for _, name := range names {
		value, ok := item[name]
		switch entries, isList := value.(*types.AttributeValueMemberL); {
		case !ok:
			e.require(e.absent(name))
		case isList && rune(name[0]) == entriesAttribute: // two lists with the same generation and size are equal
			e.require("size(" + e.name(name) + ") = " + e.number(int64(len(entries.Value))))
		default:
			e.require(e.compare(name, "=", e.value(value)))
		}
	}
}

// guesses predicts whether a bucket is busy if this environment has no current state of it. For each limit it
// predicts what was recently correct, like the branch predictor of a processor. The zero value predicts idle.
type guesses [256]atomic.Int32

// sure is the largest absolute value of a counter. After at most sure+1 contrary results, the prediction changes.
const sure = 4

func (g *guesses) of(id limiter.ID) *atomic.Int32 { return &g[id%limiter.ID(len(g))] }

func (g *guesses) busy(id limiter.ID) bool { return g.of(id).Load() > 0 }

// learn records whether the bucket of a limit was busy. If two calls of learn run at the same time, one
// result can be lost.
func (g *guesses) learn(id limiter.ID, busy bool) {
	count := g.of(id)
	if n := count.Load(); busy {
		count.Store(min(n+1, sure))
	} else {
		count.Store(max(n-1, -sure))
	}
}
