package simulate

import (
	"context"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// environment is one execution environment: a Limiter with its caches, which decides one request at a time. It has
// its own virtual time. It runs as a coroutine until it needs an answer of the store or reaches the end of the tick,
// and can be ahead of other environments.
type environment struct {
	sim      *simulation
	index    uint32
	region   int
	limiter  *limiter.Limiter
	traffic  *rand.Rand // source of the arrivals; equal for all scenarios with the same seed
	random   *rand.Rand // source of all other random numbers
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
	// transferEnds is the deadline of the current transfer of share.
	transferEnds algo.Instant
	answered     algo.Instant // when the last answer for which the environment waited arrives
	serial       uint32
	settling     time.Duration // total time that measured requests waited for their settlement

	// Calls sent and requests decided since the simulation last collected both.
	sent []call
	log  []request

	watched *edge.Watch // nil without a distribution
	listed  []entry     // since the simulation last collected them
}

// untimed hides the store's deadlines in real time, because the environment applies the virtual
// ones.
type untimed struct{ limiter.Store }

// Timeout implements limiter.Remote.
func (untimed) Timeout() time.Duration { return 0 }

// ConnectTimeout implements limiter.Remote.
func (untimed) ConnectTimeout(algo.Instant) time.Duration { return 24 * time.Hour }

func newEnvironment(s *simulation, index uint32, region int) (*environment, error) {
	e := &environment{
		sim: s, index: index, region: region, watched: s.newWatch(),
		traffic: rand.New(rand.NewPCG(s.Seed, 2*uint64(index))),
		random:  rand.New(rand.NewPCG(s.Seed, 2*uint64(index)+1)),
	}
	o := limiter.Options{IntN: e.random.IntN, Clock: e, Logger: slog.New(slog.DiscardHandler)}
	store, err := e.open(&o)
	if err != nil {
		return nil, err
	}
	if e.limiter, err = limiter.New(store, o); err != nil {
		return nil, err
	}
	e.next, e.stop = iter.Pull(e.run)
	return e, nil
}

// open returns the store of an environment, and sets the stores of the other regions.
func (e *environment) open(o *limiter.Options) (store limiter.Store, err error) {
	if e.sim.Regions > 0 {
		store, o.Regions, err = e.openRegions()
		return store, err
	}
	store, err = e.sim.open(e)
	return untimed{store}, err
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
	return time.Duration(e.traffic.ExpFloat64() * e.sim.gap / e.sim.part(e.region))
}

func (e *environment) suspend() {
	e.stopped = e.stopped || !e.yield(struct{}{})
}

func (e *environment) decide() {
	s := e.sim
	r := request{at: e.now, environment: e.index}
	if s.Limit == nil || !s.Limit.Global {
		r.caller = uint32((s.callers.draw(e.traffic)-1)/s.sample() + 1)
	}
	if s.atEdge(r.caller, e.now) { // occupies no environment
		r.edge = true
		e.log, e.arrival = append(e.log, r), e.arrival.Add(e.pause())
		return
	}
	e.begun, e.deadline = e.now, e.now.Add(s.Timeout)
	var d limiter.Decision
	var receipt *limiter.Receipt
	var err error
	charges := e.inRegion(s.charges(r.caller))
	if s.settles {
		s.answer(e.traffic, &r)
		d, receipt, err = e.limiter.TakeRefundable(context.Background(), r.at.Time(), charges)
	} else {
		d, err = e.limiter.Take(context.Background(), r.at.Time(), charges)
	}
	if err != nil {
		e.err = err
	}
	e.watch(r.caller, &d)
	r.took = uint32(e.now.Sub(r.at))
	r.admitted, r.degraded, r.cached = d.Allowed, d.Reason != limiter.ReasonNone, d.FromCache
	r.regionCalls = uint8(d.Transfer.Calls) //nolint:gosec // at most algo.MaxRegions
	e.log = append(e.log, r)
	if receipt != nil {
		e.settle(receipt, &r)
	}
	e.free = e.now.Add(s.Invocation)
	e.arrival = e.arrival.Add(e.pause())
}

// settle settles a request at the end of its answer. The environment waits for the store, as a
// function does before it returns.
func (e *environment) settle(receipt *limiter.Receipt, r *request) {
	e.now = e.now.Add(r.lasts)
	begun := e.now
	e.deadline = begun.Add(e.sim.Timeout)
	receipt.Settle(context.Background(), begun.Time(), r.actual)
	if e.measured() {
		e.settling += e.now.Sub(begun)
	}
}

// trip makes one call to the store: it arrives after half of the round trip, and its answer after
// the other half. If the answer is after the deadline, trip returns an error although the store
// serves the call.
func (e *environment) trip(ctx context.Context, serve func(at algo.Instant)) error {
	return e.send(ctx, e.region, serve)
}

// send is trip to the store of a region. A call to a region that is cut off never arrives.
func (e *environment) send(ctx context.Context, to int, serve func(at algo.Instant)) error {
	there := max(e.sim.latency.draw(e.random)/2, e.sim.shortest) + e.sim.between(e.region, to)
	c := call{at: e.now.Add(there), caller: e, serial: e.serial, serve: serve}
	answer, deadline := c.at.Add(there), e.deadline
	if d, ok := ctx.Value(until{}).(algo.Instant); ok {
		deadline = d
	}
	separated := e.sim.separated(e.region, to, e.now)
	c.waits = answer <= deadline && !separated
	e.serial++
	if !separated {
		e.sent = append(e.sent, c)
	}
	if !c.waits {
		e.now = max(e.now, deadline)
		return context.DeadlineExceeded
	}
	e.waiting++
	e.answered = max(e.answered, answer)
	if e.suspend(); !e.together { // otherwise another call can already wait for a later answer
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
		if e.yield = outer; len(strands) > 0 {
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
