package dynamostore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// sharedLayout is the layout of a window that regions share: that of a window, and what moved in each of its windows. An
// absent number is 0.
type sharedLayout struct{ windowLayout }

var _ limiter.Shares = (*Store)(nil)

// sharesAttribute is 1 in an item in which share has moved. Reset does not delete such an item.
const sharesAttribute = string(movedAttribute)

// moved returns the name of the attribute with the share that moved in a window of the limit id.
func moved(id string, window int64) string {
	return string(movedAttribute) + id + strconv.FormatInt(window, indexBase)
}

// size implements layout. There is a number for each of the three counts.
func (l sharedLayout) size(r algo.Rate, m algo.Machine) (fixed, instants int) {
	fixed, instants = l.windowLayout.size(r, m)
	const marker, sign = 1 + 2, 1
	return fixed + (fixed - nameBytes) + 3*sign + marker, instants
}

func (l sharedLayout) read(item item, id string) (algo.State, error) {
	s, err := l.windowLayout.read(item, id)
	if err != nil {
		return s, err
	}
	r := reader{item: item}
	return s.WithMoved(r.number(moved(id, s.Window)), r.number(moved(id, s.Window-1))), r.err
}

// write implements layout. For a condition, which has no item, it names both numbers; a number of 0 is not written.
func (l sharedLayout) write(item item, id string, s algo.State, now algo.Instant) map[string]types.AttributeValue {
	all := l.windowLayout.write(item, id, s, now)
	for window, n := range map[int64]int64{s.Window: s.Moved(), s.Window - 1: s.MovedBefore()} {
		if item == nil || n != 0 {
			all[moved(id, window)] = number(n)
		}
	}
	return all
}

// charge implements layout. While nothing has moved, the condition is that of a window of the base share, and that nothing
// has moved. Otherwise it names what has moved, so that the bound of the count is exact.
func (sharedLayout) charge(t *take, e *expression, v *view, c limiter.Charge) {
	w := v.current.Machine.(*algo.Shared)
	in := t.requireWindow(e, w.Whole, v)
	if c.Force {
		t.requireRoom(e, w.Whole, v, in, c)
	} else {
		s := w.At(v.current.State, t.now)
		e.requireMoved(w, v.id, s)
		if s.Moved() == 0 && (s.MovedBefore() == 0 || !w.Whole.Sliding) {
			t.requireRoom(e, w.Part(), v, in, c)
		} else {
			e.requireCounts(w, v.id, s, w.Room(s, t.now, c.Cost))
		}
	}
	e.count(v.id, in, c.Cost)
}

// movedOperators is the number of operators of the condition that one number in requireMoved has.
const movedOperators = 4

// requireMoved adds the condition that the share that moved is that of s, as far as s counts it.
func (e *expression) requireMoved(w *algo.Shared, id string, s algo.State) {
	e.requireNumber(moved(id, s.Window), s.Moved())
	if w.Whole.Sliding {
		e.requireNumber(moved(id, s.Window-1), s.MovedBefore())
	}
}

// requireCounts adds the condition that the newest window of s counts at most room, which is not negative, and the window
// before it no more than in s.
func (e *expression) requireCounts(w *algo.Shared, id string, s algo.State, room int64) {
	if w.Whole.Sliding {
		e.require(e.absentOr(count(id, s.Window-1), "<=", e.number(s.Previous)))
	}
	e.require(e.absentOr(count(id, s.Window), "<=", e.number(room)))
}

// dead implements layout.
func (l sharedLayout) dead(item item, id string, s algo.State) (names []string, crowded bool) {
	names, crowded = l.windowLayout.dead(item, id, s)
	old, _ := item.windowsBefore(s.Window-1, movedAttribute, id)
	return append(names, old...), crowded
}

// Credit implements limiter.Shares. Its update is sent once: the client has no retries (see API), and net/http repeats a
// request only if it has written nothing of it.
func (s *Store) Credit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index,
	credit int64) (algo.Result, bool, error) {
	e, id := newExpression(), limit.ID.String()
	e.move(limit, index, now)
	e.add(moved(id, index), -credit)
	item, applied, err := s.update(ctx, subject, e)
	if err != nil || !applied {
		return algo.Result{}, false, err
	}
	s.tidy(ctx, now, subject, item, []limiter.Charge{{Limit: limit}})
	held, err := item.held(id, limit)
	return held.Result, true, err
}

// move adds what a debit and a credit of the window index have in common. The condition is that the item has no other
// parameters and no later window; the update writes these parameters and this window.
func (e *expression) move(limit *limiter.Limit, index int64, now algo.Instant) {
	id := limit.ID.String()
	fingerprint, newest, parameters := attribute(fingerprintAttribute, id), attribute(newestAttribute, id), e.text(limit.Fingerprint())
	e.require(e.absentOr(fingerprint, "=", parameters))
	e.require(e.absentOr(newest, "<=", e.number(index)))
	e.setTo(fingerprint, parameters)
	e.setAtFirst(attribute(versionAttribute, id), e.number(limit.Version))
	e.setTo(newest, e.number(index))
	e.keepShares(limit, now)
	for dead := index - 3; dead < index-1; dead++ {
		e.remove = append(e.remove, e.name(count(id, dead)), e.name(moved(id, dead)))
	}
}

// keepShares makes a reset keep the share that moved, and sets the expiry.
func (e *expression) keepShares(limit *limiter.Limit, now algo.Instant) {
	e.setTo(sharesAttribute, e.number(1))
	e.setTo(TTLAttribute, e.number(expiry(now, limit.Horizon)))
}

// resetShared removes all of an item but the share that moved, and the windows in which it moved.
func (s *Store) resetShared(ctx context.Context, subject limiter.Subject, item item) error {
	for range contended {
		e := newExpression()
		e.require(e.compare(sharesAttribute, "=", e.number(1)))
		for name := range item {
			if id, ok := strings.CutPrefix(name, string(fingerprintAttribute)); ok {
				if err := e.reset(item, id); err != nil {
					return err
				}
			}
		}
		if e.update() == nil {
			return nil
		}
		next, applied, err := s.update(ctx, subject, e)
		if err != nil || applied {
			return err
		}
		item = next
	}
	return fmt.Errorf("%w: reset lost %d races", limiter.ErrContended, contended)
}

// reset adds the removal of the limit id, but not of the share that moved.
func (e *expression) reset(item item, id string) error {
	held, err := item.held(id, nil)
	if err != nil {
		return err
	}
	_, shared := held.Machine.(*algo.Shared)
	switch {
	case !shared: // a debit after a conversion now would need its fingerprint
		e.requireMachine(id, held.Machine)
		e.removeLimit(item, id)
	case held.State.Moved() == 0 && held.State.MovedBefore() == 0: // a debit now would need the windows that the update removes
		e.requireState(item, id, held)
		e.removeLimit(item, id)
	default:
		for _, name := range item.stateOf(id) {
			if letter := rune(name[0]); letter != movedAttribute && letter != newestAttribute {
				e.remove = append(e.remove, e.name(name))
			}
		}
	}
	return nil
}
