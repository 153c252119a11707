package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// operation is a call of a store and its answer. Exactly one of take, settle, reset and inspect is what it did.
type operation struct {
	take, settle, reset, inspect bool
	subject                      limiter.Subject
	now                          algo.Instant
	charges                      []limiter.Charge
	given                        []algo.Result // for a settlement: the results of the take
	elapsed                      time.Duration
	allowed, contended           bool
	seen                         []algo.Result // for a take: the states after it
	entries                      []limiter.Entry
}

func (o operation) String() string {
	return fmt.Sprintf("take %t, settle %t, reset %t, inspect %t, of %+v at start%+v: allowed %t, contended %t, %+v %+v", o.take, o.settle,
		o.reset, o.inspect, o.charges, o.now.Sub(start), o.allowed, o.contended, o.seen, o.entries)
}

// explains applies an operation to m, and reports whether m returns the same answer as the store.
func (m *Model) explains(o operation) bool {
	switch {
	case o.take:
		allowed, results := m.Take(o.now, o.subject, o.charges)
		return allowed == o.allowed && (!allowed || m.Number(o.subject, o.charges, statesOf(o.seen))) &&
			slices.EqualFunc(results, o.seen, sameResult)
	case o.contended:
		m.release(o.subject, o.charges, o.given)
	case o.settle:
		m.Settle(o.now, o.subject, o.charges, o.given, o.elapsed)
	case o.reset:
		m.Reset(o.subject)
	case o.inspect:
		return slices.EqualFunc(m.Inspect(o.subject), o.entries, func(a, b limiter.Entry) bool {
			return a.ID == b.ID && a.Version == b.Version && sameResult(a.Result, b.Result)
		})
	}
	return true
}

func sameResult(a, b algo.Result) bool {
	return a.Machine.Fingerprint() == b.Machine.Fingerprint() && trimmed(a).State == trimmed(b).State
}

func (m *Model) clone() *Model {
	c := &Model{Margin: m.Margin, held: map[limiter.Subject]map[limiter.ID]limiter.Held{}, slots: maps.Clone(m.slots)}
	for subject, held := range m.held {
		c.held[subject] = maps.Clone(held)
	}
	return c
}

func (m *Model) equal(o *Model) bool {
	return maps.EqualFunc(m.held, o.held, maps.Equal) && maps.Equal(m.slots, o.slots)
}

// testLinearizable records concurrent operations on a subject. It then searches for an order of these operations in which
// the model returns the same answers, bit for bit. In this order, each operation takes place between its call and its
// return. The callers are processes with clocks that differ by up to a second and with older and newer rules. An
// operation that failed with limiter.ErrContended did nothing, except that a settlement may have released its slots.
func testLinearizable(t *testing.T, s Suite) {
	const callers, histories = 8, 6
	stores := twoProcesses(t, s)
	for of := range len(rates) + 1 {
		several := of == len(rates)
		var limits [][2]*limiter.Limit // older and newer rules
		for i, rate := range rates {
			if several || i == of {
				next := rates[(i+1)%len(rates)].Algorithm
				first := Limit(t, string('a'+rune(i)), algo.Rate{Algorithm: rate.Algorithm, Requests: 12, Window: time.Second})
				limits = append(limits, [2]*limiter.Limit{first, changed(t, first, 2, algo.Rate{Algorithm: next, Requests: 15,
					Window: 1300 * time.Millisecond})})
			}
		}
		for seed := range uint64(histories) {
			who, began := subject(), time.Now()
			history := make([][]porcupine.Operation, callers)
			together(t, callers, func(i int) {
				c := &concurrent{rand.New(rand.NewPCG(seed, uint64(i))), stores[i%2], who, limits, nil, map[*limiter.Limit]algo.Result{}}
				skew := time.Duration(c.Int64N(int64(time.Second))) - 500*time.Millisecond
				newer := c.IntN(40)
				for n := range 20 {
					o := c.draw(start.Add(skew+time.Duration(n)*90*time.Millisecond), n >= newer, several)
					called := time.Since(began)
					runtime.Gosched() // without this, calls of a store in memory are rarely concurrent
					happened, err := c.perform(o)
					runtime.Gosched()
					if err != nil {
						t.Errorf("%s: %v", o, err)
					} else if happened && (!o.contended || s.Releases) {
						history[i] = append(history[i], porcupine.Operation{ClientId: i, Input: *o, Call: int64(called), Return: int64(time.Since(began))})
					}
				}
			})
			spec := porcupine.Model{
				Init:  func() any { return &Model{Margin: s.Margin} },
				Equal: func(a, b any) bool { return a.(*Model).equal(b.(*Model)) },
				Step: func(state, input, _ any) (bool, any) {
					next := state.(*Model).clone()
					return next.explains(input.(operation)), next
				},
			}
			if all := slices.Concat(history...); !porcupine.CheckOperations(spec, all) {
				slices.SortFunc(all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
				for _, o := range all {
					t.Logf("%d: %9d to %9d ns  %s", o.ClientId, o.Call, o.Return, o.Input)
				}
				t.Fatalf("limits %d, history %d: got answers that no order of the operations explains, want one order", of, seed)
			}
		}
	}
}

// concurrent is one goroutine that calls a store.
type concurrent struct {
	*rand.Rand
	store  limiter.Store
	who    limiter.Subject
	limits [][2]*limiter.Limit
	past   []operation // takes that can be settled
	last   map[*limiter.Limit]algo.Result
}

// draw returns the next operation. A store can need two attempts to refund several charges, so a subject with several
// limits is never reset: after a reset between these attempts, the store refunds fewer charges than the model.
func (c *concurrent) draw(now algo.Instant, newer, several bool) *operation {
	o := &operation{subject: c.who, now: now}
	switch n := c.IntN(100); {
	case n < 20 && len(c.past) > 0:
		back := c.past[len(c.past)-1]
		c.past = c.past[:len(c.past)-1]
		o.settle, o.elapsed = true, time.Duration(c.Int64N(int64(300*time.Millisecond)))
		actual := []int64{c.Int64N(2) * c.Int64N(12), c.Int64N(30)}
		o.charges, o.given = corrections(back.charges, back.seen, actual)
	case n < 25:
		o.inspect = true
	case n < 30 && !several:
		o.reset = true
	default:
		o.take = true
		for _, versions := range c.limits {
			if several && c.IntN(2) == 0 && len(o.charges) > 0 {
				continue
			}
			charge := limiter.Charge{Subject: c.who, Limit: versions[0], Cost: c.Int64N(4)}
			if newer {
				charge.Limit = versions[1]
			}
			if c.IntN(12) == 0 {
				charge.Force, charge.Cost = true, c.Int64N(20)
			}
			o.charges = append(o.charges, charge)
		}
	}
	return o
}

// perform calls the store. happened is false if the call failed in a way that changes nothing.
func (c *concurrent) perform(o *operation) (happened bool, err error) {
	switch {
	case o.take:
		o.seen = make([]algo.Result, len(o.charges))
		for i, charge := range o.charges {
			if c.IntN(4) > 0 {
				o.seen[i] = c.last[charge.Limit]
			}
		}
		o.allowed, err = c.store.Take(ctx, o.now, o.subject, o.charges, o.seen)
		if err != nil {
			return false, ignoring(err)
		}
		for i, charge := range o.charges {
			c.last[charge.Limit] = o.seen[i]
		}
		if o.allowed && !slices.ContainsFunc(o.charges, func(charge limiter.Charge) bool { return charge.Force }) {
			c.past = append(c.past, *o)
		}
	case o.settle && len(o.charges) == 0:
		return false, nil
	case o.settle:
		_, err = c.store.Settle(ctx, o.now, o.subject, o.charges, o.given, o.elapsed)
		o.contended = errors.Is(err, limiter.ErrContended)
		return true, ignoring(err)
	case o.reset:
		err = c.store.Reset(ctx, o.subject)
	case o.inspect:
		o.entries, err = c.store.Inspect(ctx, o.subject)
	}
	return err == nil, ignoring(err)
}

// ignoring returns err unless all attempts lost races.
func ignoring(err error) error {
	if errors.Is(err, limiter.ErrContended) {
		return nil
	}
	return err
}
