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

// taker decides one request of the caller with the given number.
type taker func(caller int) (allowed bool, err error)

// memoryContender is a way to decide in this process.
type memoryContender struct {
	name string
	ours bool // a row of Weir that the goals compare with the peers
	// open returns a limiter of requests per window for each of keys. worker makes a
	// taker for one goroutine; finish frees what the limiter holds.
	open func(requests int, window time.Duration, keys []string) (worker func() taker, finish func(), err error)
}

// endless is a limit that is too large for any measurement to reach.
const endless = 1_000_000_000

// manyKeys is the number of callers in the measurement of memory.
const manyKeys = 100_000

var memoryColumns = []column{
	{"one key, ns", 0}, {"one key, parallel", 0}, {"100k keys", 0}, {"100k, parallel", 0}, {"refused", 0},
	{"allocs", 2}, {"bytes a key", 0}, {"errors %", 2}, {"over-admitted", 0},
}

// timedColumns is the number of memoryColumns that contain times.
const timedColumns = 5

func memoryGroup(ctx context.Context, b *bench) (group, error) {
	contenders := append(memoryPeers(), memoryWeir()...)
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("caller-%08d", i)
	}
	var names []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	lines, err := interleave(ctx, b, names, func(i, _ int) ([]figure, error) {
		m := memoryMeasure{contender: contenders[i], keys: keys, time: 150 * time.Millisecond}
		if b.quick {
			m.time = 10 * time.Millisecond
		}
		return m.line()
	})
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Memory: ns, allocations and bytes a decision", Corner: "one limit", Columns: memoryColumns, Rows: rows(names, lines),
		Note: "Every time includes one reading of the clock, every row but the last a key that is ready made. Bytes are heap over the key itself, at 100,000 keys. " +
			"Errors are decisions that failed on one key in parallel. The whole path is rules matched, decision and header fields.",
	}
	return group{Name: "Memory", Tables: []table{t}, Goals: memoryGoals(t, contenders)}, nil
}

func memoryGoals(t table, contenders []memoryContender) (goals []goal) {
	for _, c := range contenders {
		if c.ours {
			goals = append(goals, ahead(t, c.name, contenders),
				atMost(c.name+", allocations", t.value(c.name, "allocs"), 0, 2),
				atMost(c.name+", bytes a key over the key", t.value(c.name, "bytes a key"), 64, 0))
		}
	}
	over := figure(0)
	for _, c := range contenders {
		if c.ours || c.name == wholePath {
			over += t.value(c.name, "over-admitted")
		}
	}
	return append(goals,
		atMost("whole path, ns (about 1 us)", t.value(wholePath, "one key, ns"), 1200, 0),
		atMost("over-admission", over, 0, 0))
}

// ahead returns the goal that name is faster than every peer in every column. If a peer is
// faster, the goal names the fastest peer.
func ahead(t table, name string, contenders []memoryContender) goal {
	var behind []string
	for _, c := range t.Columns[:timedColumns] {
		var fastest string
		least := t.value(name, c.Name)
		for _, peer := range contenders {
			if theirs := t.value(peer.name, c.Name); peer.peer() && theirs <= least {
				fastest, least = peer.name, theirs
			}
		}
		if fastest != "" {
			behind = append(behind, fmt.Sprintf("%s (%s %.0f)", c.Name, fastest, least))
		}
	}
	g := goal{What: name, Want: "ahead of every peer in every time", Measured: "ahead", Met: len(behind) == 0}
	if !g.Met {
		g.Measured = "behind in " + strings.Join(behind, ", ")
	}
	return g
}

// memoryMeasure is one contender in one round.
type memoryMeasure struct {
	contender memoryContender
	keys      []string
	time      time.Duration // approximate duration of one measurement
}

// line measures all columns. Each column uses a new limiter.
func (m memoryMeasure) line() ([]figure, error) {
	bytes, err := m.bytes()
	if err != nil {
		return nil, err
	}
	one, allocs, err := m.times(endless, m.keys[:1])
	if err != nil {
		return nil, err
	}
	many, _, err := m.times(endless, m.keys)
	if err != nil {
		return nil, err
	}
	refused, _, err := m.times(1, m.keys[:1])
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

// times measures decisions on keys that the limiter already knows.
func (m memoryMeasure) times(requests int, keys []string) (s speed, allocs figure, err error) {
	worker, finish, err := m.contender.open(requests, time.Hour, keys)
	if err != nil {
		return s, 0, err
	}
	defer finish()
	known := worker()
	for i := range keys {
		if _, err := known(i); err != nil {
			return s, 0, err
		}
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(keys))
	n := 1000
	elapsed, _ := timed(n, 1, order, worker)
	n = max(n, int(float64(n)*float64(m.time)/float64(elapsed)))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	elapsed, _ = timed(n, 1, order, worker)
	runtime.ReadMemStats(&after)
	s.serial = figure(elapsed.Nanoseconds()) / figure(n)
	allocs = figure(int(100*float64(after.Mallocs-before.Mallocs)/float64(n))) / 100 // the Go runtime causes a few allocations
	workers := runtime.GOMAXPROCS(0)
	elapsed, failed := timed(n, workers, order, worker)
	s.parallel = figure(elapsed.Nanoseconds()) / figure(n*workers)
	s.errors = 100 * figure(failed) / figure(n*workers)
	return s, allocs, nil
}

// timed runs several goroutines, and each decides n requests. It returns the duration and the
// number of failed decisions.
func timed(n, workers int, order []int, worker func() taker) (time.Duration, int64) {
	var failed atomic.Int64
	var wg sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		take, errors, at := worker(), int64(0), w*len(order)/workers
		wg.Go(func() {
			for range n {
				if _, err := take(order[at]); err != nil {
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

// bytes returns the heap bytes that a limiter uses for each key. The key itself does not count,
// because it is already on the heap.
func (m memoryMeasure) bytes() (figure, error) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the first collection only empties pools
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	worker, finish, err := m.contender.open(endless, time.Hour, m.keys)
	if err != nil {
		return 0, err
	}
	defer finish()
	take := worker()
	before := heap()
	for i := range m.keys {
		if _, err := take(i); err != nil {
			return 0, err
		}
	}
	after := heap()
	runtime.KeepAlive(worker)
	return figure(after-before) / figure(len(m.keys)), nil
}

// over returns the number of requests above the limit that are admitted on all cores together.
func (m memoryMeasure) over() (figure, error) {
	const limit, attempts = 1000, 4000
	worker, finish, err := m.contender.open(limit, time.Hour, m.keys[:1])
	if err != nil {
		return 0, err
	}
	defer finish()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		take := worker()
		wg.Go(func() {
			for range attempts {
				if ok, err := take(0); ok && err == nil {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return figure(max(0, admitted.Load()-limit)), nil
}
