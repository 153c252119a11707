package simulate

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// traffic is how requests reach regions that share limits. The zero value is for one region.
type traffic struct {
	parts []float64 // part of the requests in each region; the sum is 1
	cut   int       // number of the region, from 1, that exchanges no message with others in the measured time; 0: none
}

// pattern names a kind of traffic.
type pattern string

const (
	oneRegion pattern = "one region"
	uneven    pattern = "80/15/5 %"
	even      pattern = "even"
	firstCut  pattern = "80/15/5 %, first region cut off"
	lastCut   pattern = "80/15/5 %, last region cut off"
)

var patterns = []pattern{oneRegion, uneven, even, firstCut, lastCut}

// traffic returns the traffic of n regions. The third and all later regions divide the last part of an uneven one.
func (p pattern) traffic(n int) (t traffic) {
	for i := range n {
		part := 0.05 / float64(max(1, n-2))
		switch {
		case p == even:
			part = 1 / float64(n)
		case p == oneRegion:
			part = float64(max(0, 1-i))
		case i == 0:
			part = 0.8
		case n == 2:
			part = 0.2
		case i == 1:
			part = 0.15
		}
		t.parts = append(t.parts, part)
	}
	switch p {
	case firstCut:
		t.cut = 1
	case lastCut:
		t.cut = n
	case oneRegion, uneven, even:
	}
	return t
}

// regionShapes are limits of one caller and its traffic in percent of the limit.
var regionShapes = []struct {
	requests int64
	unit     string
	window   time.Duration
	percent  float64
	pattern  pattern
	windows  int // number of windows that are measured
}{
	{1000, "minute", time.Minute, 90, oneRegion, 10},
	{1000, "minute", time.Minute, 200, oneRegion, 10},
	{1000, "minute", time.Minute, 90, uneven, 10},
	{1000, "minute", time.Minute, 90, even, 10},
	{1000, "minute", time.Minute, 200, even, 10},
	{60, "minute", time.Minute, 90, oneRegion, 100},
	{5, "minute", time.Minute, 90, oneRegion, 500},
	{100, "second", time.Second, 90, oneRegion, 200},
	{100, "second", time.Second, 90, uneven, 200},
	{100_000, "day", 24 * time.Hour, 90, uneven, 1},
	{1000, "minute", time.Minute, 90, firstCut, 60},
	{1000, "minute", time.Minute, 90, lastCut, 60},
}

// PlanRegions returns scenarios of limits that p.Regions regions share. Their names match the expression only; nil means all.
// The rate and the duration are those of each scenario.
func PlanRegions(p Parameters, only *regexp.Regexp) (plan []Scenario, err error) {
	if err := p.checkRegions(); err != nil {
		return nil, err
	}
	var names []string
	for _, shape := range regionShapes {
		for _, a := range []algo.Algorithm{algo.FixedWindow, algo.SlidingWindow} {
			name := fmt.Sprintf("%s a %s, %s, %g %%: %s", thousands(shape.requests), shape.unit, a, shape.percent, shape.pattern)
			if names = append(names, name); only != nil && !only.MatchString(name) {
				continue
			}
			s := Scenario{Name: name, Parameters: p, traffic: shape.pattern.traffic(p.Regions)}
			s.Rate, s.Callers = float64(shape.requests)*shape.percent/100/shape.window.Seconds(), 1
			s.Warmup, s.Measured = shape.window, time.Duration(shape.windows)*shape.window
			if s.Limit, err = limiter.NewLimit(limiter.Limit{Name: "simulated", Rate: algo.Rate{
				Algorithm: a, Requests: shape.requests, Window: shape.window, Counts: true, Regions: algo.Regions{Of: p.Regions},
			}}); err == nil {
				err = s.validate()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			plan = append(plan, s)
		}
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("names: got %q, want part of a name such as %q", only, names[0])
	}
	return plan, nil
}

// inTraffics returns s with each kind of traffic, or s itself without regions. It returns none if a limit that can refuse a
// request is not shared by the regions.
func (s Scenario) inTraffics() (list []Scenario) {
	if s.Regions == 0 {
		return []Scenario{s}
	}
	if slices.ContainsFunc(s.enforced(1), func(c limiter.Charge) bool { return c.Limit.Regions() == nil }) {
		return nil
	}
	for _, p := range patterns {
		one := s
		one.Name, one.traffic = s.Name+": "+string(p), p.traffic(s.Regions)
		list = append(list, one)
	}
	return list
}

func (p *Parameters) checkRegions() error {
	switch {
	case p.Regions == 0:
		return nil
	case p.Regions < 2 || p.Regions > algo.MaxRegions:
		return fmt.Errorf("regions: got %d, want 2 to %d, or 0 for one region", p.Regions, algo.MaxRegions)
	case p.Store != DynamoDB:
		return fmt.Errorf("regions: got the store %s, want %s: no other store can move share", p.Store, DynamoDB)
	case p.Edge != 0:
		return fmt.Errorf("edge: got %s, want 0: a distribution never refuses for limits that regions share", p.Edge)
	case p.Distance < 0 || p.Distance > limiter.DebitTimeout:
		return fmt.Errorf("distance: got %s, want 0 to %s", p.Distance, limiter.DebitTimeout)
	}
	return nil
}

// longestDecision bounds the time of a decision: one that needs share of other regions calls its own store again after each round.
func (s *Scenario) longestDecision() time.Duration {
	if s.Regions == 0 {
		return s.Timeout
	}
	return 3*s.Timeout + 2*limiter.TransferTimeout
}

// wholeMachine returns the algorithm of a limit in all regions.
func wholeMachine(l *limiter.Limit) algo.Machine {
	if w := algo.WindowOf(l.Machine()); w != nil {
		return w
	}
	return l.Machine()
}

// inRegion replaces the limits that regions share by their parts in the region of e.
func (e *environment) inRegion(charges []limiter.Charge) []limiter.Charge {
	for i, c := range charges {
		if all := c.Limit.Regions(); all != nil {
			charges[i].Limit = all[e.region]
		}
	}
	return charges
}

// until is the context key of the virtual deadline of calls that move share.
type until struct{}

// regional is the store of an environment in one of several regions.
type regional struct {
	untimed
	limiter.Shares
	env *environment
}

// Credit implements limiter.Shares. The call that follows it has a deadline of its own.
func (r regional) Credit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, moved int64) (algo.Result, bool, error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), until{}, r.env.transferEnds)
	defer func() { r.env.deadline = r.env.now.Add(r.env.sim.Timeout) }()
	return r.Shares.Credit(ctx, now, subject, limit, index, moved)
}

// otherRegion is the store of another region.
type otherRegion struct {
	limiter.Shares
	env *environment
}

// Debit implements limiter.Shares. All debits of a transfer begin at the same time.
func (o otherRegion) Debit(ctx context.Context, now algo.Instant, subject limiter.Subject, limit *limiter.Limit, index, lack int64, seen *algo.Result) (int64, error) {
	e := o.env
	e.transferEnds = e.now.Add(limiter.TransferTimeout)
	ctx = context.WithValue(context.WithoutCancel(ctx), until{}, e.now.Add(limiter.DebitTimeout))
	return o.Shares.Debit(ctx, now, subject, limit, index, lack, seen)
}

// route is the link of an environment to the table of a region.
type route struct {
	*environment
	to int
}

func (r route) trip(ctx context.Context, serve func(at algo.Instant)) error {
	return r.send(ctx, r.to, serve)
}

// openRegions connects an environment to the tables of all regions.
func (e *environment) openRegions() (store limiter.Store, others []limiter.Shares, err error) {
	for i, table := range e.sim.tables {
		s, err := newDynamo(route{e, i}, table)
		if err != nil {
			return nil, nil, err
		}
		if i == e.region {
			store, others = regional{untimed{s}, s, e}, append(others, nil)
		} else {
			others = append(others, otherRegion{s, e})
		}
	}
	return store, others, nil
}

// separated reports whether no message passes between two regions.
func (s *simulation) separated(a, b int, at algo.Instant) bool {
	cut := s.traffic.cut - 1
	return a != b && (a == cut || b == cut) && at >= s.from && (s.rejoins == 0 || at < s.from.Add(s.rejoins))
}

// part returns the part of the requests that reach a region.
func (s *simulation) part(region int) float64 {
	if s.Regions == 0 {
		return 1
	}
	return s.traffic.parts[region]
}

// between returns half of the round trip from one region to another.
func (s *simulation) between(a, b int) time.Duration {
	if a == b {
		return 0
	}
	return s.Distance / 2
}
