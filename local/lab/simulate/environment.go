package simulate

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// environment is one execution environment: a Limiter with its caches, which decides one request at a time. It has
// its own virtual time. It runs as a coroutine until it needs an answer of the store or reaches the end of the tick,
// and can be ahead of other environments.
type environment struct {
	sim      *simulation
	index    uint32
	limiter  *limiter.Limiter
	traffic  *rand.Rand // source of the arrivals; equal for all scenarios with the same seed
	random   *rand.Rand // source of all other random numbers
	callers  *rand.Zipf // draws a caller from traffic
	next     func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
	waiting  int // calls whose answers the environment waits for
	stopped  bool
	together bool // concurrent calls run, and Together sets now
	err      error

	now      algo.Instant
	arrival  algo.Instant // arrival of the next request
	free     algo.Instant // end of the last invocation
	begun    algo.Instant // start of the current request
	deadline algo.Instant // deadline of the current decision
	answered algo.Instant // when the last answer for which the environment waited arrives
	serial   uint32

	// Calls sent and requests decided since the simulation last collected both.
	sent []call
	log  []request
}

// untimed hides the store's deadlines in real time, because the environment applies the virtual
// ones.
type untimed struct{ limiter.Store }

// Timeout implements limiter.Remote.
func (untimed) Timeout() time.Duration { return 0 }

// ConnectTimeout implements limiter.Remote.
func (untimed) ConnectTimeout(algo.Instant) time.Duration { return 24 * time.Hour }

func newEnvironment(s *simulation, index uint32) (*environment, error) {
	e := &environment{
		sim: s, index: index,
		traffic: rand.New(rand.NewPCG(s.Seed, 2*uint64(index))),
		random:  rand.New(rand.NewPCG(s.Seed, 2*uint64(index)+1)),
	}
	e.callers = rand.NewZipf(e.traffic, zipfExponent, 1, uint64(s.Callers-1))
	o := limiter.Options{IntN: e.random.IntN, Clock: e, Logger: slog.New(slog.DiscardHandler)}
	store, err := s.open(e)
	if err != nil {
		return nil, err
	}
	e.limiter, err = limiter.New(untimed{store}, o)
	if err != nil {
		return nil, err
	}
	e.next, e.stop = iter.Pull(e.run)
	return e, nil
}

// patience is how long a request waits for a free environment. If it waits longer, there are too
// few environments.
const patience = time.Second

// run decides requests until the end of the simulation.
func (e *environment) run(yield func(struct{}) bool) {
	e.yield = yield
	e.arrival = e.sim.start.Add(e.pause())
	for e.await() {
		e.decide()
	}
}

// await waits for the next request. It returns false at the end of the simulation.
func (e *environment) await() bool {
	s := e.sim
	for !e.stopped {
		switch {
		case e.arrival < s.until && e.free.Sub(e.arrival) > patience:
			e.log = append(e.log, request{at: e.free, away: true})
			e.arrival = e.arrival.Add(e.pause())
		case max(e.arrival, e.free) < s.until:
			e.now = max(e.arrival, e.free)
			return true
		default:
			e.suspend()
			if e.arrival >= s.since { // draw the arrival again, because this tick can have another rate
				e.arrival = s.since.Add(e.pause())
			}
		}
	}
	return false
}

// pause draws the time to the next request of a Poisson process.
func (e *environment) pause() time.Duration {
	return time.Duration(e.traffic.ExpFloat64() * e.sim.gap)
}

func (e *environment) suspend() {
	e.stopped = e.stopped || !e.yield(struct{}{})
}

func (e *environment) decide() {
	s := e.sim
	r := request{at: e.now, environment: e.index}
	if !s.Limit.Global {
		r.caller = uint32(e.callers.Uint64())
	}
	e.begun, e.deadline = e.now, e.now.Add(s.Timeout)
	d, err := e.limiter.Take(context.Background(), r.at.Time(), s.charges(r.caller))
	if err != nil {
		e.err = err
	}
	r.took = uint32(e.now.Sub(r.at))
	r.admitted, r.degraded, r.cached = d.Allowed, d.Reason != limiter.ReasonNone, d.FromCache
	e.log = append(e.log, r)
	e.free = e.now.Add(s.Invocation)
	e.arrival = e.arrival.Add(e.pause())
}

// trip makes one call to the store: it arrives after half of the round trip, and its answer after
// the other half. If the answer is after the deadline, trip returns an error although the store
// serves the call.
func (e *environment) trip(_ context.Context, serve func(at algo.Instant)) error {
	there := max(e.sim.latency.draw(e.random)/2, e.sim.shortest)
	c := call{at: e.now.Add(there), caller: e, serial: e.serial, serve: serve}
	answer := c.at.Add(there)
	c.waits = answer <= e.deadline
	e.serial++
	e.sent = append(e.sent, c)
	if !c.waits {
		e.now = max(e.now, e.deadline)
		return context.DeadlineExceeded
	}
	e.waiting++
	e.answered = max(e.answered, answer)
	e.suspend()
	if !e.together { // otherwise another call can already wait for a later answer
		e.now = e.answered
	}
	if e.stopped {
		return context.Canceled
	}
	return nil
}

// strand is one of several concurrent calls of a request.
type strand struct {
	next  func() (struct{}, bool)
	yield func(struct{}) bool
}

// Together implements limiter.ConcurrentClock. All calls begin now. Those that need the store wait for it at the same
// time, and continue when the last of their answers has arrived.
func (e *environment) Together(calls []func()) {
	outer, begun, end := e.yield, e.now, e.now
	e.together = true
	defer func() { e.together = false }()
	strands := make([]*strand, len(calls))
	for i, call := range calls {
		s := new(strand)
		s.next, _ = iter.Pull(func(yield func(struct{}) bool) {
			s.yield, e.yield = yield, yield
			call()
		})
		strands[i] = s
	}
	for len(strands) > 0 {
		strands = slices.DeleteFunc(strands, func(s *strand) bool {
			e.now, e.yield = begun, s.yield
			_, waits := s.next()
			end = max(end, e.now)
			return !waits
		})
		e.yield = outer
		if len(strands) > 0 {
			e.suspend()
			begun = e.answered
		}
	}
	e.now = end
}

// Now implements limiter.Clock.
func (e *environment) Now() time.Time { return e.now.Time() }

// Sleep implements limiter.Clock. It fails at once if the sleep would leave no time for another
// call before the deadline.
func (e *environment) Sleep(_ context.Context, d time.Duration) error {
	end := e.now.Add(d)
	if end.Add(e.sim.P99) >= e.deadline {
		return context.DeadlineExceeded
	}
	e.now = end
	return nil
}

// measured implements link.
func (e *environment) measured() bool { return e.begun >= e.sim.from }
