package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// layout is how an item holds one kind of algorithm, and how updates charge and refund it. Each kind has a file of its
// own. The rest of the store does not depend on the kind.
type layout interface {
	// size returns the largest size, in bytes, of the attributes of a state. instants is the size of the instants of
	// requests, and fixed the size of all else.
	size(r algo.Rate, m algo.Machine) (fixed, instants int)

	read(stored item, id string) (algo.State, error)

	// write returns the attributes of the state s by their names. it is the present item; nil if there is none. now is
	// the instant of the decision. read is the inverse.
	write(stored item, id string, s algo.State, now algo.Instant) map[string]types.AttributeValue

	// next returns the state of v after the charge c, and whether c is allowed.
	next(v *view, c limiter.Charge, now algo.Instant) (algo.State, bool)

	// exceeds reports whether the charge c of v needs a rewrite of the whole state: charge has no update for it.
	exceeds(t *take, v *view, c limiter.Charge) bool

	// charge adds the charge c of v to an update, and its condition.
	charge(t *take, e *expression, v *view, c limiter.Charge)

	// renew changes a state of v before a rewrite, so that conditions can tell the new state from the old one.
	renew(t *take, v *view, s *algo.State)

	// refund adds the refund of the charge i to an update, and its condition.
	refund(r *refund, e *expression, i int)

	// unknown reports whether a refund needs the item, because the state s after the charge is incomplete.
	unknown(s algo.State) bool

	// trim adds the removal of instants that have expired, after a charge of this cost. e is nil until there is one.
	trim(e *expression, stored item, id string, h algo.Result, cost int64) *expression

	// dead returns the attributes that no decision reads. crowded reports whether they should be removed at once.
	dead(stored item, id string, s algo.State) (names []string, crowded bool)

	// idle returns the instant from which the state has no effect.
	idle(stored item, id string, h algo.Result) algo.Instant
}

func layoutOf(m algo.Machine) layout {
	switch m.(type) {
	case *algo.Bucket:
		return bucketLayout{}
	case *algo.Window:
		return windowLayout{}
	case *algo.Shared:
		return sharedLayout{}
	case *algo.Log:
		return logLayout{}
	default:
		return slotsLayout{}
	}
}

// plain has the methods of a layout that most kinds share.
type plain struct{}

func (plain) next(v *view, c limiter.Charge, now algo.Instant) (algo.State, bool) {
	return c.Apply(v.current.Machine, v.current.State, now)
}

func (plain) renew(*take, *view, *algo.State) {}

func (plain) unknown(algo.State) bool { return false }

func (plain) trim(e *expression, _ item, _ string, _ algo.Result, _ int64) *expression { return e }

func (plain) dead(item, string, algo.State) (names []string, crowded bool) { return nil, false }

func (plain) idle(_ item, _ string, h algo.Result) algo.Instant { return h.Machine.Idle(h.State) }
