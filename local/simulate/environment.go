package simulate

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// environment is one execution environment of Lambda: a Limiter with its own caches, which
// decides one request at a time. It is a coroutine that yields while it waits for the store,
// so that the calls of all environments interleave as in reality.
type environment struct {
	sim     *simulation
	limiter *limiter.Limiter
	request int // its request, an index of the log
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	stopped bool

	// The call that the environment waits for.
	serve    func(at algo.Instant)
	back     time.Duration // travel time of the answer
	deadline algo.Instant  // of the decision
	late     bool          // the wait has timed out
	left     bool          // only carries a call after its timeout
}

// newEnvironment starts an environment.
func newEnvironment(s *simulation) (*environment, error) {
	e := &environment{sim: s}
	o := limiter.Options{IntN: s.random.IntN, Clock: e, Logger: slog.New(slog.DiscardHandler)}
	if s.Limit.Spread.Cells > 0 {
		cells, err := memstore.New(memstore.Options{})
		if err != nil {
			return nil, err
		}
		o.Cells = cells
	}
	l, err := limiter.New(s.open(e), o)
	if err != nil {
		return nil, err
	}
	e.limiter = l
	e.next, e.stop = iter.Pull(e.run)
	e.next() // up to its wait for a request
	return e, nil
}

// run decides one request each time that it is resumed.
func (e *environment) run(yield func(struct{}) bool) {
	e.yield = yield
	var charges [1]limiter.Charge
	for yield(struct{}{}) {
		r := &e.sim.log[e.request]
		e.deadline = r.at.Add(e.sim.Timeout)
		charges[0] = limiter.Charge{Subject: e.sim.subject(r.caller), Limit: e.sim.Limit, Cost: 1}
		d, err := e.limiter.Take(context.Background(), r.at.Time(), charges[:])
		if err != nil {
			e.sim.fail(err)
		}
		if e.stopped {
			return
		}
		e.sim.decides(e, d)
	}
}

// trip makes one call of the store: half of the round trip, then serve, then the other half.
// An error means that the answer was not in time. The call may still be served.
func (e *environment) trip(_ context.Context, serve func(at algo.Instant)) error {
	s := e.sim
	there := s.latency.draw(s.random) / 2
	arrival := s.now.Add(there)
	if arrival < e.deadline {
		e.serve, e.back = serve, there
		s.push(arrival, served, e)
	} else {
		s.push(arrival, served, &environment{sim: s, serve: serve, left: true})
		s.push(e.deadline, timedOut, e)
	}
	if !e.yield(struct{}{}) {
		e.stopped = true
		return context.Canceled
	}
	if e.late {
		return context.DeadlineExceeded
	}
	return nil
}

// Now implements limiter.Clock.
func (e *environment) Now() time.Time { return e.sim.now.Time() }

// Sleep implements limiter.Clock. A pause that leaves no time for another call fails at once.
func (e *environment) Sleep(_ context.Context, d time.Duration) error {
	end := e.sim.now.Add(d)
	if end.Add(e.sim.P99) >= e.deadline {
		return context.DeadlineExceeded
	}
	e.sim.push(end, answered, e)
	if !e.yield(struct{}{}) {
		e.stopped = true
		return context.Canceled
	}
	return nil
}

// measured implements link.
func (e *environment) measured() bool { return e.sim.measured(e) }

// arrive serves the call that arrives now.
func (e *environment) arrive() {
	s := e.sim
	e.serve(s.now)
	e.serve = nil
	switch answer := s.now.Add(e.back); {
	case e.left:
	case answer <= e.deadline:
		s.push(answer, answered, e)
	default:
		s.push(e.deadline, timedOut, e)
	}
}

// resume continues the environment.
func (e *environment) resume(late bool) {
	e.late = late
	e.next()
}
