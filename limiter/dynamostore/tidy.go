package dynamostore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// deadMost is how many attributes that nobody reads any more an item may hold.
const deadMost = 8

// idleLeast is how long a limit has been at full quota before it is removed: a clock
// that runs ahead would otherwise remove what one that runs behind still counts.
const idleLeast = time.Hour

// tidy removes dead attributes once there are many: counts of windows older than the
// previous one, which a caller leaves behind who comes back after long pauses (each
// write removes only two by name), and limits that are idle, such as those of rules
// that are gone. It fails in silence: a later write tries again.
func (s *Store) tidy(ctx context.Context, now algo.Instant, subject limiter.Subject, it item, charges []limiter.Charge) {
	e := newExpression()
	for _, c := range charges {
		e.cutLog(it, c.Limit)
	}
	if len(e.set) > 0 {
		_, _, _ = s.update(ctx, subject, e)
		return
	}
	if len(it) <= deadMost {
		return
	}
	for name := range it {
		if id, ok := strings.CutPrefix(name, string(fingerprintAttribute)); ok {
			e.removeDead(it, id, now)
		}
	}
	if len(e.remove) > deadMost {
		_, _, _ = s.update(ctx, subject, e)
	}
}

// cutLog adds the removal of a log's expired entries, once the list holds twice what
// the limit allows: an append and a removal cannot share an update. It is rewritten if
// nobody has changed it meanwhile.
func (e *expression) cutLog(it item, limit *limiter.Limit) {
	id := limit.ID.String()
	held, err := it.held(id, limit)
	l, ok := held.Machine.(*algo.Log)
	if !ok || err != nil || int64(held.State.Entries.Len()) < l.Deepest() {
		return
	}
	trimmed := l.Trim(held.State)
	if trimmed == held.State {
		return
	}
	entries := attribute(entriesAttribute, id)
	e.requireMachine(id, l)
	e.require(e.compare(attribute(lastAttribute, id), "=", e.number(int64(held.State.Newest))))
	e.require("size(" + e.name(entries) + ") = " + e.number(int64(held.State.Entries.Len())))
	e.setTo(entries, e.value(list(trimmed.Entries)))
}

// removeDead adds the removal of what is dead of the limit id, under conditions that
// it still is: without them the update would recreate a deleted item, or remove a
// live count after the newest index was mended or converted.
func (e *expression) removeDead(it item, id string, now algo.Instant) {
	held, err := it.held(id, nil)
	if err != nil || held.Machine == nil {
		return
	}
	if held.Machine.Idle(held.State).Add(idleLeast) <= now {
		e.requireHeld(it, &view{id: id, held: held})
		for _, name := range append(it.stateOf(id), attribute(fingerprintAttribute, id), attribute(versionAttribute, id)) {
			e.remove = append(e.remove, e.name(name))
		}
		return
	}
	if _, ok := held.Machine.(*algo.Window); !ok {
		return
	}
	dead := it.deadWindows(id, held.State.Window)
	if len(dead) == 0 {
		return
	}
	e.requireMachine(id, held.Machine)
	e.require(e.compare(attribute(newestAttribute, id), ">=", e.number(held.State.Window)))
	for _, name := range dead {
		e.remove = append(e.remove, e.name(name))
	}
}

// deadWindows returns the counts of the limit id that are older than the one before
// newest.
func (it item) deadWindows(id string, newest int64) (names []string) {
	prefix := string(countAttribute) + id + "_"
	for name := range it {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if w, err := strconv.ParseInt(rest, 10, 64); err == nil && w < newest-1 {
				names = append(names, name)
			}
		}
	}
	return names
}
