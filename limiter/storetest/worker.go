package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// event is an operation that happened between the instants Call and Return. All processes use the
// same clock for these instants.
type event struct {
	Op           operation
	Goroutine    int
	Call, Return int64
	Allowed      bool         // the store allowed the take
	Used         bool         // another message of the settlement was there before
	Contended    bool         // for a settlement: the store made no corrections, but may have released slots
	Seen         []seen       // for a take, the results; for an inspection, the entries
	Taken        []algo.State // for a take, the states with the numbers of slots
	Given        []seen       // for a settlement, the results of the settled take
	Failure      string       // description of an answer that a store must not return

	process int
}

// client returns a number that is unique for each goroutine of all processes. The second message of a
// doubled settlement counts as a separate goroutine.
func (e event) client() int { return e.process*2*goroutines + e.Goroutine }

func (e event) String() string {
	names := [...]string{takes: "take", settles: "settle", resets: "reset", inspects: "inspect"}
	return fmt.Sprintf("%s %+v at start%+v, elapsed %s: allowed %t, used %t, contended %t, seen %+v, given %+v", names[e.Op.Kind], e.Op.Charges, e.Op.Now.Sub(start), e.Op.Elapsed, e.Allowed, e.Used, e.Contended, e.Seen, e.Given)
}

// seen is a limiter.Entry that can be encoded as JSON.
type seen struct {
	ID          limiter.ID
	Version     int64
	Fingerprint string
	State       algo.State
}

func newSeen(r algo.Result) seen {
	r = trimmed(r)
	return seen{Fingerprint: r.Machine.Fingerprint(), State: r.State}
}

// worker is one process: a store and the states that the process has seen.
type worker struct {
	t      *testing.T
	store  limiter.Store
	limits [][]*limiter.Limit

	mu         sync.Mutex
	remembered map[memo]algo.Result
}

// memo identifies a state that the process has seen: the state of one version of a limit, for a subject.
type memo struct {
	subject limiter.Subject
	limit   *limiter.Limit
}

func newWorker(t *testing.T, store limiter.Store) *worker {
	return &worker{t: t, store: store, limits: family(t), remembered: map[memo]algo.Result{}}
}

// run implements caller.
func (w *worker) run(s script) ([]event, error) {
	events := make([][]event, len(s.Goroutines))
	together(w.t, len(s.Goroutines), func(g int) { events[g] = w.perform(g, s.Goroutines[g]) })
	var all []event
	for _, list := range events {
		all = append(all, list...)
	}
	return all, nil
}

// taken is a take that can be settled.
type taken struct {
	of      []chargeOf
	charges []limiter.Charge
	results []algo.Result
}

// perform executes the calls of one goroutine. A call that did not happen has no event.
func (w *worker) perform(g int, ops []operation) (events []event) {
	past := map[string][]taken{}
	for _, op := range ops {
		e := event{Op: op, Goroutine: g}
		var happened bool
		switch who := limiter.User(op.Subject); op.Kind {
		case takes:
			charges := charges(w.limits, who, op.Charges)
			results := make([]algo.Result, len(charges))
			if happened = w.take(&e, who, charges, results); happened && e.Allowed && !charges[0].Force {
				past[op.Subject] = append(past[op.Subject], taken{op.Charges, charges, results})
			}
		case settles:
			last := len(past[op.Subject]) - 1
			if last < 0 {
				continue
			}
			back := past[op.Subject][last]
			past[op.Subject] = past[op.Subject][:last]
			events = append(events, w.settle(e, who, back)...)
		case resets:
			happened = e.call(func() error { return w.store.Reset(ctx, who) })
		case inspects:
			happened = e.call(func() error {
				entries, err := w.store.Inspect(ctx, who)
				e.Seen = seenIn(entries)
				return err
			})
		}
		if happened {
			events = append(events, e)
		}
	}
	return events
}

// settle settles a take. If the operation is doubled, it sends the settlement twice at the same time. It
// returns all settlements, including contended ones.
func (w *worker) settle(e event, who limiter.Subject, of taken) (events []event) {
	charges, results := corrections(of.charges, of.results, e.Op.Actual)
	if e.Op.Charges, e.Given = correctionsOf(of.of, e.Op.Actual), givenOf(results); len(charges) == 0 {
		return nil
	}
	sent := []event{e}
	if e.Op.Doubled {
		sent = append(sent, e)
		sent[1].Goroutine += goroutines
	}
	together(w.t, len(sent), func(i int) {
		e := &sent[i]
		e.call(func() error {
			_, err := w.store.Settle(ctx, e.Op.Now, who, charges, results, e.Op.Elapsed, e.Op.Once)
			if e.Used = errors.Is(err, limiter.ErrVoucherUsed) || errors.Is(err, limiter.ErrVoucherBegun); e.Used {
				return nil
			}
			e.Contended = errors.Is(err, limiter.ErrContended)
			return err
		})
	})
	return sent
}

// call executes a call and records its time. It returns false if the call did not happen.
func (e *event) call(f func() error) bool {
	e.Call = sharedClock()
	runtime.Gosched() // without this, calls of a store in memory are rarely concurrent
	err := f()
	runtime.Gosched()
	e.Return = sharedClock()
	if err != nil && !errors.Is(err, limiter.ErrContended) {
		e.Failure = err.Error()
		return true
	}
	return err == nil
}

// take charges the store. It passes the states that the process has seen as hints.
func (w *worker) take(e *event, who limiter.Subject, charges []limiter.Charge, results []algo.Result) bool {
	w.mu.Lock()
	for i, c := range charges {
		if !e.Op.Cold {
			results[i] = w.remembered[memo{who, c.Limit}]
		}
	}
	w.mu.Unlock()
	if !e.call(func() (err error) { e.Allowed, err = w.store.Take(ctx, e.Op.Now, who, charges, results); return err }) {
		return false
	}
	if e.Failure != "" {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range charges {
		w.remembered[memo{who, c.Limit}] = results[i]
	}
	e.Seen, e.Taken = seenOf(results), statesOf(results)
	return true
}

func charges(limits [][]*limiter.Limit, who limiter.Subject, of []chargeOf) (list []limiter.Charge) {
	for _, c := range of {
		list = append(list, limiter.Charge{Subject: who, Limit: limits[c.Limit][c.Version], Cost: c.Cost, Force: c.Force})
	}
	return list
}

// correctionsOf is the function corrections for the charges of an operation.
func correctionsOf(charges []chargeOf, actual []int64) (list []chargeOf) {
	for i, c := range charges {
		if more := actual[i%len(actual)] - c.Cost; more != 0 {
			c.Cost, c.Force = max(more, -more), more > 0
			list = append(list, c)
		}
	}
	return list
}

func seenOf(results []algo.Result) (list []seen) {
	for _, r := range results {
		list = append(list, newSeen(r))
	}
	return list
}

// givenOf returns the parts of results that a settlement needs.
func givenOf(results []algo.Result) (list []seen) {
	for _, r := range results {
		list = append(list, seen{Fingerprint: r.Machine.Fingerprint(), State: r.State})
	}
	return list
}

func seenIn(entries []limiter.Entry) (list []seen) {
	for _, e := range entries {
		s := newSeen(e.Result)
		s.ID, s.Version = e.ID, e.Version
		list = append(list, s)
	}
	return list
}

// sharedClock reads a monotonic clock that all processes share.
func sharedClock() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // every supported system has this clock
	}
	return now.Nano()
}
