package dynamostore

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// deadMost is the number of dead attributes (see tidy) that an item may hold before the store removes them.
const deadMost = 8

// liveLeast is the least number of attributes of a charged limit that are not dead: its fingerprint, its version and a state.
const liveLeast = 3

// tidy removes dead counts at once if the item has more than largeItem bytes, and a limit has dead counts and
// more than countsMost counts. So a limit of a large item has at most three counts during a write:
// windowLayout.size reserves space for three counts in one write unit.
const (
	largeItem  = 512 // in bytes
	countsMost = 2
)

// tidyMost bounds the attributes that one update removes: at most tidyMost counts of one limit, and no further limit
// after tidyMost attributes. DynamoDB allows 4 KB and 300 operators in an expression. An attribute takes two
// operators and at most 14 bytes. The next write removes the rest.
const tidyMost = 80

// idleLeast is the time for which a limit must have full quota before it is removed. Otherwise a
// process with a fast clock could remove state that a process with a slow clock still counts.
const idleLeast = time.Hour

// tidy removes dead attributes once there are many. Dead attributes are the counts of windows before the previous
// window, and the attributes of idle limits, such as limits of removed rules. A charge removes at most two counts by
// name, so a caller with long pauses leaves counts behind. The charge is already made, so tidy only logs an error. A
// later write tidies again.
func (s *Store) tidy(ctx context.Context, now algo.Instant, subject limiter.Subject, item item, charges []limiter.Charge) {
	var trimmed *expression
	for _, c := range charges {
		id := c.Limit.ID.String()
		if held, err := item.held(id, c.Limit); err == nil && held.Machine != nil {
			trimmed = layoutOf(held.Machine).trim(trimmed, item, id, held.Result, c.Cost)
		}
	}
	e := trimmed
	if e == nil { // usually it stays on the stack
		e = newExpression()
	}
	e.outlive(item, charges)
	if len(e.set) > 0 {
		s.updateTidied(ctx, now, subject, e)
		return
	}
	live := 0
	for _, c := range charges {
		live += liveLeast * int(min(c.Cost, 1)) // a charge of 0 may write nothing
	}
	if len(item)-live <= deadMost && item.bytes() <= largeItem {
		return // most items have no more dead attributes than they may
	}
	crowded := false
	for name := range item {
		if len(e.names) >= tidyMost {
			break
		}
		if id, ok := strings.CutPrefix(name, string(fingerprintAttribute)); ok {
			crowded = e.removeDead(item, id, charges, now) || crowded
		}
	}
	if len(e.remove) > deadMost || crowded && item.bytes() > largeItem {
		s.updateTidied(ctx, now, subject, e)
	}
}

// updateTidied sends the update that tidy needs. Its condition can fail because another request
// changed the item.
func (s *Store) updateTidied(ctx context.Context, now algo.Instant, subject limiter.Subject, e *expression) {
	if _, _, err := s.update(ctx, subject, e); err != nil {
		s.warn(ctx, now, "item not tidied; a later decision retries", err)
	}
}

// outlive is tidy for an attempt that charged nothing: it only extends the life of the item. The decision goes on with what it
// has read of the rest.
func (s *Store) outlive(ctx context.Context, now algo.Instant, subject limiter.Subject, item item, charges []limiter.Charge) {
	e := newExpression()
	e.outlive(item, charges)
	if len(e.set) > 0 {
		s.updateTidied(ctx, now, subject, e)
	}
}

// outlive extends the life of an item if one of its other limits needs the item for longer than the charged limits
// do. Counts of newer rules must not expire because of a charge under older rules.
func (e *expression) outlive(item item, charges []limiter.Charge) {
	r := reader{item: item}
	given := r.number(TTLAttribute)
	needed := given
	for name := range item {
		id, ok := strings.CutPrefix(name, string(fingerprintAttribute))
		if !ok || own(item, id, charges) != nil {
			continue
		}
		if held, err := item.held(id, nil); err == nil && held.Machine != nil {
			needed = max(needed, expiry(held.Machine.Idle(held.State), 0))
		}
	}
	needed = min(needed, given+int64(2*algo.MaxPeriod/time.Second))
	// half of the margin covers a small difference, the other half is for clock skew
	if needed > given+int64(expiryMargin/time.Second)/2 && r.err == nil {
		e.require(e.compare(TTLAttribute, "=", e.number(given)))
		e.setTo(TTLAttribute, e.number(needed))
	}
}

// own returns the limit of the charge that has the limit id, with the same parameters as in the item; nil if there is none.
func own(item item, id string, charges []limiter.Charge) *limiter.Limit {
	f, ok := item[attribute(fingerprintAttribute, id)].(*types.AttributeValueMemberS)
	for _, c := range charges {
		if ok && c.Limit.ID.String() == id && c.Limit.Fingerprint() == f.Value {
			return c.Limit
		}
	}
	return nil
}

// removeLimit adds the removal of all attributes of the limit id.
func (e *expression) removeLimit(item item, id string) {
	for _, name := range append(item.stateOf(id), attribute(fingerprintAttribute, id), attribute(versionAttribute, id)) {
		e.remove = append(e.remove, e.name(name))
	}
}

// removeDead adds the removal of the dead attributes of the limit id, on the condition that they are
// still dead. Without this condition, the update could recreate a deleted item. It could also remove a
// live count after a clamp or a conversion of the newest index. crowded reports whether the limit has
// dead counts and more than countsMost counts in total.
func (e *expression) removeDead(item item, id string, charges []limiter.Charge, now algo.Instant) (crowded bool) {
	held, err := item.held(id, own(item, id, charges))
	if err != nil || held.Machine == nil {
		return false
	}
	layout := layoutOf(held.Machine)
	dead, crowded := layout.dead(item, id, held.State)
	if layout.idle(item, id, held.Result).Add(idleLeast) <= now && len(dead) <= tidyMost/2 {
		e.requireState(item, id, held)
		e.removeLimit(item, id)
		return crowded
	}
	if len(dead) == 0 {
		return false
	}
	e.requireMachine(id, held.Machine)
	e.require(e.compare(attribute(newestAttribute, id), ">=", e.number(held.State.Window)))
	for _, name := range dead[:min(len(dead), tidyMost)] {
		e.remove = append(e.remove, e.name(name))
	}
	return crowded
}

// warn logs an error that no decision returns, at most one a minute.
func (s *Store) warn(ctx context.Context, now algo.Instant, message string, err error) {
	last := s.warned.Load()
	if age := now.Sub(algo.Instant(last)).Abs(); age >= time.Minute && s.warned.CompareAndSwap(last, int64(now)) {
		s.o.Logger.LogAttrs(ctx, slog.LevelWarn, message, slog.Any("err", err))
	}
}
