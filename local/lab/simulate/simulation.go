package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

type request struct {
	at          algo.Instant
	caller      uint32
	environment uint32
	took        uint32 // duration of the decision in nanoseconds
	admitted    bool
	degraded    bool // true if the store did not decide
	cached      bool // true if the environment refused it without a call
	away        bool // true if it found no free environment
}

// simulation is a running Scenario.
//
// Environments interact only through the store. A call needs at least the time in shortest to reach the
// store, and the same time for its answer. So if a call arrives at t, its answer causes no call that
// arrives before t + 2*shortest. Within such a span, no call depends on another one. The store serves
// the calls of a span in order. Then the environments of these calls continue.
type simulation struct {
	*Scenario
	start     algo.Instant
	from, end algo.Instant // from: end of the warm-up; end: end of the simulation
	latency   lognormal
	shortest  time.Duration
	open      func(*environment) (limiter.Store, error)
	meter     *meter
	tally     *Result
	judge     *judge
	record    func(*request) // if not nil, called for each request in order of time

	all          []*environment
	parked       []*environment // environments that have reached the end of the tick
	since, until algo.Instant   // start and end of the tick
	gap          float64        // mean nanoseconds between two requests of one environment
	calls        calls
	log          []request // requests that the judge has not seen yet
}

// epoch is the start of every simulation: midnight, which is a boundary of every
// window that divides a day.
var epoch = algo.InstantOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

// Run simulates s. The same scenario always gives the same result. Run adds the requests to progress unless it is nil. It
// returns the error of ctx.
func Run(ctx context.Context, s Scenario) (Result, error) {
	sim := newSimulation(&s)
	if err := sim.openStore(); err != nil {
		return Result{}, err
	}
	if err := sim.run(ctx); err != nil {
		return Result{}, err
	}
	return sim.result(), nil
}

func newSimulation(s *Scenario) *simulation {
	start := epoch
	from := start.Add(s.Warmup)
	end := from.Add(s.Measured)
	sim := &simulation{
		Scenario: s, start: start, from: from, end: end,
		latency:  newLognormal(s.Median, s.P99),
		shortest: max(1, s.Median/8),
		meter:    &meter{from: from, end: end},
		tally:    newResult(s),
		judge:    newJudge(s, from),
	}
	sim.record = sim.count
	return sim
}

// openStore creates the store. open then connects an environment to it.
func (s *simulation) openStore() error {
	if s.Store == DynamoDB {
		table := newTable(s.meter, s.ItemWrites)
		s.open = func(e *environment) (limiter.Store, error) { return newDynamo(e, table) }
		return nil
	}
	cluster, err := newCluster(s.meter, s.SlotECPUs, s.CacheECPUs)
	s.open = func(e *environment) (limiter.Store, error) { return &cache{env: e, cluster: cluster}, nil }
	return err
}

// minTick is the minimum length of a tick. Between two calls, an environment runs ahead to the end
// of the tick.
const minTick = 100 * time.Millisecond

// run simulates tick by tick. A decision ends in the next tick at the latest, because a tick is at
// least as long as the longest decision.
func (s *simulation) run(ctx context.Context) error {
	defer func() {
		for _, e := range s.all {
			e.stop()
		}
	}()
	s.until = s.start
	if err := s.startAll(); err != nil {
		return err
	}
	for s.until < s.end {
		s.since, s.until = s.until, min(s.until.Add(max(minTick, s.Timeout)), s.end)
		s.setGap()
		s.advance(s.takeParked())
		if err := s.serve(ctx, s.until); err != nil {
			return err
		}
		if err := s.collect(s.since); err != nil {
			return err
		}
	}
	if err := s.serve(ctx, math.MaxInt64); err != nil {
		return err
	}
	return s.collect(math.MaxInt64)
}

func (s *simulation) startAll() error {
	s.since = s.start
	s.setGap()
	for range s.fleet() {
		e, err := newEnvironment(s, uint32(len(s.all)))
		if err != nil {
			return err
		}
		s.all = append(s.all, e)
	}
	s.advance(s.all)
	return nil
}

func (s *simulation) setGap() {
	rate := s.Rate
	if s.rate != nil {
		rate = s.rate(s.since.Sub(s.start))
	}
	s.gap = float64(time.Second) * float64(s.fleet()) / rate
}

func (s *simulation) takeParked() []*environment {
	parked := s.parked
	s.parked = nil
	return parked
}

// serve serves all calls that arrive before a time, including those that answers cause. It returns
// the error of ctx.
func (s *simulation) serve(ctx context.Context, before algo.Instant) error {
	var resumed []*environment
	for len(s.calls) > 0 && s.calls[0].at < before && ctx.Err() == nil {
		span := min(before, s.calls[0].at.Add(2*s.shortest))
		resumed = resumed[:0]
		for len(s.calls) > 0 && s.calls[0].at < span {
			c := heap.Pop(&s.calls).(call)
			c.serve(c.at)
			if !c.waits {
				continue
			}
			c.caller.waiting--
			if c.caller.waiting == 0 {
				resumed = append(resumed, c.caller)
			}
		}
		s.advance(resumed)
	}
	return ctx.Err()
}

// advance resumes environments until each one waits for a call or reaches the end of the tick.
func (s *simulation) advance(list []*environment) {
	for _, e := range list {
		e.next()
		waits := false
		for _, c := range e.sent {
			waits = waits || c.waits
			heap.Push(&s.calls, c)
		}
		clear(e.sent)
		e.sent = e.sent[:0]
		if !waits {
			s.parked = append(s.parked, e)
		}
	}
}

// collect judges the requests before a time.
func (s *simulation) collect(before algo.Instant) (err error) {
	for _, e := range s.all {
		s.log = append(s.log, e.log...)
		e.log = e.log[:0]
		if e.err != nil && err == nil {
			err = fmt.Errorf("%s: %w", s.Name, e.err)
		}
	}
	slices.SortFunc(s.log, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.environment, b.environment))
	})
	final, _ := slices.BinarySearchFunc(s.log, before, func(r request, before algo.Instant) int { return cmp.Compare(r.at, before) })
	for i := range s.log[:final] {
		s.record(&s.log[i])
	}
	s.log = slices.Delete(s.log, 0, final)
	return err
}
