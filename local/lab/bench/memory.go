package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// taker decides one request of a caller. The ID is all that a server knows of the caller, such as an
// address or the ID of an API key.
type taker func(id string) (allowed bool, err error)

// memoryContender is a way to decide in this process.
type memoryContender struct {
	name string
	open openMemory
}

// openMemory opens a limiter that allows each caller a number of requests in a window. worker creates a
// taker for one goroutine. finish frees the resources of the limiter.
type openMemory func(requests int, window time.Duration) (worker func() taker, finish func(), err error)

// endless is a limit that is too large for any measurement to reach.
const endless = 1_000_000_000

// manyKeys is the number of callers in the measurement of memory.
const manyKeys = 100_000

var memoryColumns = []column{
	{"one key, ns", 0}, {"one key, parallel", 0}, {"100k keys", 0}, {"100k, parallel", 0}, {"refused", 0},
	{"allocs", 2}, {"bytes a key", 0}, {"errors %", 2}, {"over-admitted", 0},
}

func memoryGroup(ctx context.Context, b *bench) (group, error) {
	m := memoryMeasure{ids: make([]string, manyKeys), time: 150 * time.Millisecond}
	for i := range m.ids {
		m.ids[i] = fmt.Sprintf("caller-%08d", i)
	}
	if b.quick {
		m.time = 10 * time.Millisecond
	}
	var contenders []contender
	for _, c := range append(memoryPeers(), memoryWeir()...) {
		m.open = c.open
		contenders = append(contenders, contender{c.name, m.line})
	}
	rows, err := b.interleave(ctx, contenders)
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Memory: ns, allocations and bytes a decision", Corner: "one limit", Columns: memoryColumns, Rows: rows,
		Omitted: []string{"one key, parallel", "100k, parallel", "errors %", "over-admitted"},
		Note: "Each call gets the caller's ID in a new string, as in a server. Every time includes one reading of the clock. " +
			"Bytes a key are heap bytes without the ID, with 100,000 IDs. " +
			"The whole path matches the rules, decides, and sets the header fields.",
	}
	t.Note += " Wrong decisions of parallel callers on one key: " + t.aboveZero("errors %", "over-admitted") + "."
	return group{Name: "Memory", Tables: []table{t}}, nil
}

// memoryMeasure is one contender in one round.
type memoryMeasure struct {
	open openMemory
	ids  []string
	time time.Duration // approximate duration of one measurement
}

// line measures all columns. Each column uses a new limiter.
func (m memoryMeasure) line() ([]figure, error) {
	bytes, err := m.bytes()
	if err != nil {
		return nil, err
	}
	one, allocs, err := m.times(endless, m.ids[:1])
	if err != nil {
		return nil, err
	}
	many, _, err := m.times(endless, m.ids)
	if err != nil {
		return nil, err
	}
	refused, _, err := m.times(1, m.ids[:1])
	if err != nil {
		return nil, err
	}
	over, err := m.over()
	if err != nil {
		return nil, err
	}
	return []figure{one.serial, one.parallel, many.serial, many.parallel, refused.serial, allocs, bytes, one.errors, over}, nil
}

// speed contains the ns per decision of one goroutine and of all cores together. It also contains
// the share of errors in the run on all cores.
type speed struct{ serial, parallel, errors figure }

// times measures decisions for callers that the limiter already knows.
func (m memoryMeasure) times(requests int, ids []string) (s speed, allocs figure, err error) {
	worker, finish, err := m.open(requests, time.Hour)
	if err != nil {
		return s, 0, err
	}
	defer finish()
	if err := fill(worker(), ids); err != nil {
		return s, 0, err
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(ids))
	n := 1000
	elapsed, _ := timed(n, 1, ids, order, worker)
	n = max(n, int(float64(n)*float64(m.time)/float64(elapsed)))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	elapsed, _ = timed(n, 1, ids, order, worker)
	runtime.ReadMemStats(&after)
	s.serial = figure(elapsed.Nanoseconds()) / figure(n)
	allocs = figure(int(100*float64(after.Mallocs-before.Mallocs)/float64(n))) / 100 // the Go runtime causes a few allocations
	workers := runtime.GOMAXPROCS(0)
	elapsed, failed := timed(n, workers, ids, order, worker)
	s.parallel = figure(elapsed.Nanoseconds()) / figure(n*workers)
	s.errors = 100 * figure(failed) / figure(n*workers)
	return s, allocs, nil
}

// fill decides one request of each caller. Each ID is a new string, because no two requests of a server
// share a string.
func fill(take taker, ids []string) error {
	for _, id := range ids {
		if _, err := take(strings.Clone(id)); err != nil {
			return err
		}
	}
	return nil
}

// timed runs several goroutines, and each decides n requests. It returns the duration and the
// number of failed decisions.
func timed(n, workers int, ids []string, order []int, worker func() taker) (time.Duration, int64) {
	var failed atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		take, errors, at := worker(), int64(0), w*len(order)/workers
		wg.Go(func() {
			for range n {
				if _, err := take(ids[order[at]]); err != nil {
					errors++
				}
				if at++; at == len(order) {
					at = 0
				}
			}
			failed.Add(errors)
		})
	}
	wg.Wait()
	return time.Since(begun), failed.Load()
}

// bytes returns the heap bytes that a limiter uses for each caller, beyond the bytes of the ID.
func (m memoryMeasure) bytes() (figure, error) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // twice, because the first collection only empties pools
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	worker, finish, err := m.open(endless, time.Hour)
	if err != nil {
		return 0, err
	}
	defer finish()
	take := worker()
	before := heap()
	if err := fill(take, m.ids); err != nil {
		return 0, err
	}
	after := heap()
	runtime.KeepAlive(worker)
	return figure(after-before)/figure(len(m.ids)) - figure(len(m.ids[0])), nil
}

// over returns by how many requests the limiter exceeds the limit while goroutines on all cores use it.
func (m memoryMeasure) over() (figure, error) {
	const limit, attempts = 1000, 4000
	worker, finish, err := m.open(limit, time.Hour)
	if err != nil {
		return 0, err
	}
	defer finish()
	var admitted atomic.Int64
	err = together(runtime.GOMAXPROCS(0), func(int) error {
		take := worker()
		for range attempts {
			if ok, err := take(m.ids[0]); ok && err == nil {
				admitted.Add(1)
			}
		}
		return nil
	})
	return figure(max(0, admitted.Load()-limit)), err
}
