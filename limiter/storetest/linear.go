package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-limits/weir/limiter"
)

// Linear configures Linearizable for a store.
type Linear struct {
	// Place prepares the shared state of all processes of one history, for example a table, and
	// returns its name.
	Place func(t *testing.T) string
	// Open returns the store of one process for the state at place.
	Open func(t *testing.T, place string) limiter.Store
	// Margin is the time that the store adds to the elapsed time of a refund.
	Margin time.Duration
	// Processes reports whether several processes can share the store. Processes cannot share a store in
	// memory.
	Processes bool
	// Releases reports whether a settlement that fails with limiter.ErrContended releases its slots.
	Releases bool
}

// These constants define the size of a history.
const (
	histories  = 6
	processes  = 4
	goroutines = 3
	operations = 30
)

// Linearizable records the answers of concurrent operations. It then searches for an order of these
// operations in which the model returns the same answers, bit for bit. In this order, each operation
// takes place between its call and its return. The callers are several processes, each with its own clock
// and cache. For a store in memory they are goroutines of this process. An operation that failed with
// limiter.ErrContended counts as not made, except that a settlement may have released its slots. A settlement that
// was refused because of another message with its ID changes nothing; the other message may still be on its way.
//
// The calling test MUST be a top-level test, because the processes execute this test binary and run
// only that test.
func Linearizable(t *testing.T, l Linear) {
	if place := os.Getenv(placeVariable); place != "" {
		serve(t, l.Open(t, place))
		return
	}
	callers := l.callers(t)
	var kinds tally
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 7))
		name := fmt.Sprintf("history-%d-", seed)
		scripts := make([]script, len(callers))
		for i := range scripts {
			scripts[i] = newScript(r, name)
		}
		h := play(t, callers, scripts)
		if t.Failed() {
			return
		}
		kinds.count(h)
		l.check(t, h)
	}
	t.Logf("%+v", kinds)
	kinds.check(t)
}

func (l Linear) callers(t *testing.T) (callers []caller) {
	t.Helper()
	place := l.Place(t)
	if l.Processes {
		for range processes {
			callers = append(callers, newProcess(t, place))
		}
		return callers
	}
	store := l.Open(t, place)
	for range processes {
		callers = append(callers, newWorker(t, store))
	}
	return callers
}

// caller runs a script. It is another process, or a worker in this process.
type caller interface {
	run(script) ([]event, error)
}

// play runs scripts concurrently. It returns the operations that happened, and contended settlements.
func play(t *testing.T, callers []caller, scripts []script) (h []event) {
	t.Helper()
	events, errs := make([][]event, len(callers)), make([]error, len(callers))
	together(t, len(callers), func(i int) { events[i], errs[i] = callers[i].run(scripts[i]) })
	for i, err := range errs {
		if err != nil {
			t.Fatalf("process %d: got error %v, want none", i, err)
		}
		for _, e := range events[i] {
			if e.Failure != "" {
				t.Errorf("process %d: got a wrong answer: %s", i, e.Failure)
			}
			e.process = i
			h = append(h, e)
		}
	}
	return h
}

// check fails the test if, for a subject, no sequential order of the operations explains the answers.
func (l Linear) check(t *testing.T, h []event) {
	t.Helper()
	checkIDs(t, h)
	spec := specification(family(t), l.Margin)
	bySubject := map[string][]event{}
	for _, e := range h {
		if e.Contended && !l.Releases {
			continue
		}
		bySubject[e.Op.Subject] = append(bySubject[e.Op.Subject], e)
	}
	for subject, events := range bySubject {
		var ops []porcupine.Operation
		for _, e := range events {
			ops = append(ops, porcupine.Operation{ClientId: e.client(), Input: e, Output: e, Call: e.Call, Return: e.Return})
		}
		result, info := porcupine.CheckOperationsVerbose(spec, ops, 0)
		if result != porcupine.Ok {
			t.Errorf("subject %s: got answers that no order of the operations explains, want one order. %s", subject, explain(info, events))
		}
	}
}

// checkIDs fails the test if every message of a settlement was refused because of another one.
func checkIDs(t *testing.T, h []event) {
	t.Helper()
	made := map[limiter.Once]bool{}
	for _, e := range h {
		made[e.Op.Once] = made[e.Op.Once] || !e.Used
	}
	for once, ok := range made {
		if !ok {
			t.Errorf("settlement %s: got every message refused, want one made", once.ID)
		}
	}
}

// explain lists the longest possible order of operations and the operations that cannot follow it.
func explain(info porcupine.LinearizationInfo, events []event) string {
	longest := []porcupine.Operation{}
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, o := range orders {
			if len(o) > len(longest) {
				longest = o
			}
		}
	}
	first := slices.MinFunc(events, func(a, b event) int { return cmp.Compare(a.Call, b.Call) }).Call
	var b strings.Builder
	show := func(e event) {
		fmt.Fprintf(&b, "  %d.%d %9d to %9d ns  %s\n", e.process, e.Goroutine, e.Call-first, e.Return-first, e)
	}
	b.WriteString("These operations can happen in this order:\n")
	for _, op := range longest {
		show(op.Input.(event))
	}
	b.WriteString("None of these operations can follow:\n")
	for _, e := range events {
		if !slices.ContainsFunc(longest, func(op porcupine.Operation) bool { return op.ClientId == e.client() && op.Call == e.Call }) {
			show(e)
		}
	}
	return b.String()
}

// tally counts the operations of histories, so that a test fails if its histories lack a kind of
// operation.
type tally struct{ Allowed, Refused, Refunds, Forced, Resets, Inspections, Overlaps int }

func (c *tally) count(h []event) {
	for i, e := range h {
		switch {
		case e.Contended:
			continue
		case e.Op.Kind == settles:
			for _, charge := range e.Op.Charges {
				if charge.Force {
					c.Forced++
				} else {
					c.Refunds++
				}
			}
		case e.Op.Kind == resets:
			c.Resets++
		case e.Op.Kind == inspects:
			c.Inspections++
		case e.Allowed:
			c.Allowed++
		default:
			c.Refused++
		}
		for _, o := range h[:i] {
			if o.Op.Subject == e.Op.Subject && o.Call < e.Return && e.Call < o.Return && (o.process != e.process || o.Goroutine != e.Goroutine) {
				c.Overlaps++
			}
		}
	}
}

func (c *tally) check(t *testing.T) {
	t.Helper()
	for _, n := range []int{c.Allowed, c.Refused, c.Refunds, c.Forced, c.Resets, c.Inspections, c.Overlaps} {
		if n < 50 {
			t.Errorf("tally: got %+v, want at least 50 of each", *c)
			return
		}
	}
}
