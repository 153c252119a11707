package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

// Fleet is a number of environments that exist from the start, under one limit of all callers
// that saves writes of its item. The result is the number of writes and the accuracy of the
// limit. A million requests take about a second: unlike a Scenario, a Fleet keeps no log of
// its requests.
type Fleet struct {
	Limit        *limiter.Limit
	Environments int
	// Rate returns the requests a second at a time after the start.
	Rate     func(since time.Duration) float64
	Duration time.Duration
	Seed     uint64
}

// Second counts the events of one second of a Fleet.
type Second struct {
	Requests, Admitted int64
	// Degraded counts the requests decided without the store, because it failed.
	Degraded int64
	// Writes and Reads count the calls for the limit's item, including throttled ones.
	// Throttled counts those.
	Writes, Reads, Throttled int64
	// Overshoot is the largest Decision.Overshoot.
	Overshoot int64
}

// sharing is a running Fleet.
type sharing struct {
	*simulation
	Fleet
	seconds []Second
	rate    func(since time.Duration) float64
	item    limiter.Store
	spare   allowance // of the item
}

// RunFleet simulates f and returns the counts of each second. The same Fleet gives the same
// result.
func RunFleet(ctx context.Context, f Fleet) ([]Second, error) {
	item, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	p := Default(DynamoDB)
	p.Seed, p.Rate, p.Callers, p.Environments, p.Warmup, p.Measured = f.Seed, 1, 1, f.Environments, 0, f.Limit.Rate.Window
	s := Scenario{Name: "fleet", Limit: f.Limit, Parameters: p}
	if err := s.validate(); err != nil {
		return nil, err
	}
	run := &sharing{simulation: newSimulation(&s), Fleet: f, rate: f.Rate, item: item, seconds: make([]Second, int((f.Duration+time.Second-1)/time.Second)), spare: newAllowance(p.ItemWrites, epoch)}
	run.open = func(e *environment) limiter.Store { return &fleetStore{fleet: run, env: e} }
	return run.seconds, run.run(ctx)
}

func (f *sharing) run(ctx context.Context) error {
	defer func() {
		for _, e := range f.all {
			e.stop()
		}
	}()
	f.log = make([]request, f.Environments) // the latest request of each environment
	f.decides = f.tally
	for i := range f.Environments {
		e, err := newEnvironment(f.simulation)
		if err != nil {
			return err
		}
		e.request = i
		f.all, f.free = append(f.all, e), append(f.free, e)
	}
	end := epoch.Add(f.Duration)
	for next := f.pause(); f.err == nil; {
		switch {
		case len(f.heap) > 0 && (f.heap[0].at <= next || next >= end):
			f.happen(f.pop())
		case next >= end:
			return nil
		default:
			f.now = next
			f.arrive()
			next = f.pause()
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return f.err
}

// pause returns the instant of the next request.
func (f *sharing) pause() algo.Instant {
	return f.now.Add(time.Duration(f.traffic.ExpFloat64() * float64(time.Second) / f.rate(f.now.Sub(epoch))))
}

// arrive gives a request to a random free environment.
func (f *sharing) arrive() {
	n := len(f.free)
	if n == 0 {
		return
	}
	i := f.random.IntN(n)
	e := f.free[i]
	f.free[i], f.free = f.free[n-1], f.free[:n-1]
	f.log[e.request] = request{at: f.now}
	e.next()
}

func (f *sharing) second(at algo.Instant) *Second {
	return &f.seconds[min(int(at.Sub(epoch)/time.Second), len(f.seconds)-1)]
}

// tally counts a decision and frees its environment.
func (f *sharing) tally(e *environment, d limiter.Decision) {
	s := f.second(f.log[e.request].at)
	s.Requests++
	if d.Allowed {
		s.Admitted++
	}
	if d.Reason != limiter.ReasonNone {
		s.Degraded++
	}
	s.Overshoot = max(s.Overshoot, d.Overshoot)
	f.free = append(f.free, e)
}

// fleetStore is the store of one environment. Each Take is one call for the only item.
type fleetStore struct {
	limiter.Store // only Take is called
	fleet         *sharing
	env           *environment
}

// Take implements limiter.Store.
func (f *fleetStore) Take(ctx context.Context, now algo.Instant, subject limiter.Subject, charges []limiter.Charge, results []algo.Result) (bool, error) {
	var taken bool
	var problem error
	sent, found := append([]limiter.Charge(nil), charges...), make([]algo.Result, len(charges))
	err := f.env.trip(ctx, func(at algo.Instant) {
		if problem = f.fleet.serve(at, sent); problem == nil {
			taken, problem = f.fleet.item.Take(ctx, now, subject, sent, found)
		}
	})
	if err != nil {
		return false, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	copy(results, found)
	return taken, problem
}

// serve counts a call and returns an error if the item is throttled.
func (f *sharing) serve(at algo.Instant, charges []limiter.Charge) error {
	s := f.second(at)
	looks := true
	for _, c := range charges {
		looks = looks && c.Cost == 0
	}
	if looks {
		s.Reads++
		return nil
	}
	s.Writes++
	if !f.spare.open(at) {
		s.Throttled++
		return fmt.Errorf("%w: %w", limiter.ErrUnavailable, limiter.ErrItemThrottled)
	}
	f.spare.spare--
	return nil
}

// Steady returns a constant Rate.
func Steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}
