package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// request is one request of the log, with its decision.
type request struct {
	at       algo.Instant
	caller   uint32
	latency  uint32 // of the decision, in microseconds
	admitted bool
	degraded bool // the store did not decide
	away     bool // Lambda had no environment for it
}

// simulation is a running Scenario.
type simulation struct {
	*Scenario
	events
	now, from, end algo.Instant // from is the end of the warm-up
	traffic        *rand.Rand   // the same for all scenarios of a seed
	random         *rand.Rand   // for everything else
	callers        zipf
	latency        lognormal
	open           func(*environment) limiter.Store
	decides        func(*environment, limiter.Decision) // records a decision
	meter          *meter

	log       []request
	all, free []*environment
	decisions struct{ remembered, billed int64 }
	err       error
}

// epoch is the start of all simulations: midnight, and so the boundary of any window that
// divides a day.
var epoch = algo.InstantOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

// Run simulates s and judges its decisions. progress, which may be nil, counts the requests
// that have arrived. The same scenario gives the same result. An error is that of ctx, or
// names an invalid field of s.
func Run(ctx context.Context, s Scenario, progress *atomic.Int64) (Result, error) {
	if err := s.validate(); err != nil {
		return Result{}, err
	}
	if s.Limit.Spread.Adaptive {
		return Result{}, errors.New("limit: adaptive shares are not supported; use RunFleet")
	}
	sim := newSimulation(&s)
	sim.openStore()
	if err := sim.run(ctx, progress); err != nil {
		return Result{}, err
	}
	return sim.result(), nil
}

func newSimulation(s *Scenario) *simulation {
	from := epoch.Add(s.Warmup)
	end := from.Add(s.Measured)
	sim := &simulation{
		Scenario: s, now: epoch, from: from, end: end,
		traffic: rand.New(rand.NewPCG(s.Seed, 0)),
		random:  rand.New(rand.NewPCG(s.Seed, 1)),
		callers: newZipf(s.Callers, s.Exponent),
		latency: newLognormal(s.Median, s.P99),
		meter:   &meter{from: from, end: end},
		log:     make([]request, 0, int(s.Rate*(s.Warmup+s.Measured).Seconds()*1.01)+1000),
	}
	sim.decides = sim.decided
	return sim
}

// openStore creates the store. open connects an environment to it.
func (s *simulation) openStore() {
	switch s.Store {
	case DynamoDB:
		table := newTable(s.meter, s.ItemWrites)
		s.open = func(e *environment) limiter.Store { return &dynamo{link: e, table: table} }
	case ElastiCache:
		cluster, err := newCluster(s.meter, s.SlotECPUs, s.CacheECPUs)
		if err != nil {
			s.fail(err)
		}
		s.open = func(e *environment) limiter.Store { return &cache{env: e, cluster: cluster} }
	}
}

// run handles all events in order.
func (s *simulation) run(ctx context.Context, progress *atomic.Int64) error {
	defer func() {
		for _, e := range s.all {
			e.stop()
		}
	}()
	next := s.now.Add(s.pause())
	for n := 0; s.err == nil; n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress.Store(int64(len(s.log)))
			}
		}
		switch {
		case next < s.end && (len(s.heap) == 0 || next <= s.heap[0].at):
			s.now = next
			s.arrival()
			next = next.Add(s.pause())
		case len(s.heap) == 0:
			return nil
		default:
			s.happen(s.pop())
		}
	}
	return s.err
}

// pause returns the time to the next request: arrivals are a Poisson process.
func (s *simulation) pause() time.Duration {
	return time.Duration(s.traffic.ExpFloat64() * float64(time.Second) / s.Rate)
}

// arrival gives a request to a random free environment, or to a new one.
func (s *simulation) arrival() {
	s.log = append(s.log, request{at: s.now, caller: uint32(s.callers.draw(s.traffic))})
	var e *environment
	switch n := len(s.free); {
	case n > 0:
		i := s.random.IntN(n)
		e = s.free[i]
		s.free[i] = s.free[n-1]
		s.free = s.free[:n-1]
	case len(s.all) < s.Environments:
		var err error
		if e, err = newEnvironment(s); err != nil {
			s.fail(err)
			return
		}
		s.all = append(s.all, e)
	default:
		s.log[len(s.log)-1].away = true
		return
	}
	e.request = len(s.log) - 1
	e.next()
}

func (s *simulation) happen(e event) {
	s.now = e.at
	switch e.kind {
	case served:
		e.env.arrive()
	case answered, timedOut:
		e.env.resume(e.kind == timedOut)
	case freed:
		s.free = append(s.free, e.env)
	}
}

// subject returns the subject that a request of a caller charges.
func (s *simulation) subject(caller uint32) limiter.Subject {
	if s.Limit.Global {
		return limiter.Global()
	}
	return limiter.User(strconv.FormatUint(uint64(caller), 10))
}

// decided records the decision of an environment and ends its invocation.
func (s *simulation) decided(e *environment, d limiter.Decision) {
	r := &s.log[e.request]
	took := s.now.Sub(r.at)
	r.admitted, r.degraded, r.latency = d.Allowed, d.Reason != limiter.ReasonNone, uint32(took/time.Microsecond)
	if r.at >= s.from {
		if d.FromCache {
			s.decisions.remembered++
		}
		s.decisions.billed += int64((took + s.Invocation + billing - 1) / billing)
	}
	s.push(s.now.Add(s.Invocation), freed, e)
}

// fail ends the simulation.
func (s *simulation) fail(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", s.Name, err)
	}
}

// measured reports whether the request that e decides counts.
func (s *simulation) measured(e *environment) bool { return s.log[e.request].at >= s.from }
