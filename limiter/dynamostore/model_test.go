package dynamostore_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	modelSeed      = flag.Uint64("model.seed", 1, "seed of the first history of TestStore_model")
	modelHistories = flag.Uint64("model.histories", 0, "number of histories of TestStore_model; 0 is 300, or 30,000 if WEIR_SOAK is set")
)

// Several processes share one item in memory. A seed determines their operations and the order of their calls. The
// model executes each operation at the moment of the call that decided it. The model and the store must give the same
// answers.
//
// The test finds races that the suite of storetest rarely produces. Unlike the suite, it knows the order of the
// operations, and needs no server.
func TestStore_model(t *testing.T) {
	histories := cmp.Or(*modelHistories, 300)
	if *modelHistories == 0 && os.Getenv("WEIR_SOAK") != "" {
		histories = 30_000
	}
	n := tally{}
	for seed := range histories {
		h := newHistory(*modelSeed + seed)
		if problem := h.problem(n); problem != "" {
			t.Fatalf("seed %d: %s\nto repeat: go test ./limiter/dynamostore -run TestStore_model -model.histories 1 -model.seed %d", h.seed, problem,
				h.seed)
		}
	}
	t.Logf("%d histories: %v", histories, n)
	for _, kind := range []string{"allowed", "refused", "clamped", "trim", "settlement", "reset", "contended", "lost",
		"log to log", "log to bucket", "window to log", "window to bucket", "slots to slots", "slots to log", "slots to bucket", "log to slots",
		"slots expired", "slots full"} {
		if n[kind] == 0 && *modelHistories == 0 {
			t.Errorf("histories: got none with %s, want at least one", kind)
		}
	}
}

// tally counts the kinds of events in the histories.
type tally map[string]int

const modelMargin = 50 * time.Millisecond

var modelStart = algo.InstantOf(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC))

var modelCaller = limiter.User("model")

// history is one item and the processes that use it.
type history struct {
	seed      uint64
	r         *rand.Rand
	rules     [2]*limiter.Limit // the same limit in the first and the second version of the rules
	table     memtable.Table
	calls     int // number of calls to the table so far
	processes []*process
	pause     int  // the first process makes a call only in about one turn of this number, so that other processes win races against it
	lossy     bool // some answers are lost
	events    []event
}

// event is an operation of a process. call is the number of the call to the table that decided it.
type event struct {
	call int
	text string
	kind string
	// check makes the operation on the model. It returns the difference between the answers of model and
	// store, or "".
	check func(*storetest.Model) string
}

// newHistory draws the limit, the clocks and the number of processes.
func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 3))
	h := &history{seed: seed, r: r, pause: []int{1, 3, 4, 5}[r.IntN(4)], lossy: r.IntN(4) == 0}
	requests := []int64{6, 12, 20, 60}[r.IntN(4)]
	before := []algo.Algorithm{algo.SlidingLog, algo.SlidingLog, algo.SlidingWindow, algo.Concurrent, algo.Concurrent}[r.IntN(5)]
	after := []algo.Algorithm{algo.SlidingLog, algo.TokenBucket, algo.Concurrent}[r.IntN(3)]
	const window = time.Second
	for i, rate := range []algo.Rate{
		{Algorithm: before, Requests: requests, Window: window, Counts: true},
		{Algorithm: after, Requests: requests + 3, Window: window * 13 / 10},
	} {
		l := limiter.Limit{Name: "a", Version: int64(i + 1), Rate: rate}
		if rate.Algorithm == algo.Concurrent {
			l.Count.Of = limiter.CountConcurrent
		}
		h.rules[i] = storetest.Must(limiter.NewLimit(l))
	}
	l := load{ // some clocks differ by more than algo.MaxSkew, so that the store clamps states
		apart:   []time.Duration{time.Second, time.Second, 6 * time.Second, 20 * time.Second}[r.IntN(4)],
		step:    []time.Duration{120 * time.Millisecond, 400 * time.Millisecond, time.Second}[r.IntN(3)],
		changes: r.IntN(2) == 0,
		refunds: []int{15, 40}[r.IntN(2)],
	}
	for i := range 2 + r.IntN(3) {
		h.processes = append(h.processes, newProcess(h, i, l))
	}
	return h
}

// problem plays the history. It returns a difference between the store and the model, or "".
func (h *history) problem(n tally) (problem string) {
	defer func() {
		if v := recover(); v != nil {
			problem = fmt.Sprintf("panic: %v%s%s", v, h.String(len(h.events)), debug.Stack())
		}
	}()
	h.play()
	return h.check(n)
}

// play runs all operations. Before each call to the table it chooses the process that makes a call.
func (h *history) play() {
	type resumed struct {
		*process
		resume func() (struct{}, bool)
	}
	var running []resumed
	for _, p := range h.processes {
		resume, stop := iter.Pull(p.run)
		defer stop()
		running = append(running, resumed{p, resume})
	}
	for len(running) > 0 {
		i := h.r.IntN(len(running))
		if running[i].id == 0 && len(running) > 1 && h.r.IntN(h.pause) > 0 {
			continue
		}
		if _, more := running[i].resume(); !more {
			running = slices.Delete(running, i, i+1)
		}
	}
}

// check makes all operations on the model. It returns the first difference, and the operations up to
// it, or "".
func (h *history) check(n tally) string {
	slices.SortStableFunc(h.events, func(a, b event) int { return a.call - b.call })
	m := &storetest.Model{Margin: modelMargin}
	for i, e := range h.events {
		n[e.kind]++
		if difference := e.check(m); difference != "" {
			return difference + h.String(i+1)
		}
	}
	p := h.processes[0]
	p.yield = func(struct{}) bool { return true } // All processes have ended, so none has to wait for this Inspect.
	got, err := p.store.Inspect(context.Background(), modelCaller)
	if err != nil {
		return err.Error()
	}
	want := m.Inspect(modelCaller)
	if g, w := shownEntries(got), shownEntries(want); g != w {
		return fmt.Sprintf("at the end: got %s, want %s%s", g, w, h.String(len(h.events)))
	}
	if len(want) > 0 && want[0].Version == 2 {
		n[fmt.Sprintf("%s to %s", short(h.rules[0]), short(h.rules[1]))]++
	}
	return ""
}

// String returns the limits and the first operations.
func (h *history) String(operations int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nrules 1: %s, rules 2: %s, pause %d, lossy %t\n", h.rules[0].Fingerprint(), h.rules[1].Fingerprint(),
		h.pause, h.lossy)
	for _, e := range h.events[:operations] {
		fmt.Fprintf(&b, "call %3d: %s\n", e.call, e.text)
	}
	return b.String()
}

func short(l *limiter.Limit) string {
	switch l.Machine().(type) {
	case *algo.Bucket:
		return "bucket"
	case *algo.Window:
		return "window"
	case *algo.Slots:
		return "slots"
	}
	return "log"
}
