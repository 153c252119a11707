package simulate

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Limits are those that a plan tries: one for each caller, and one for all together, strict
// and spread.
type Limits struct {
	Window    time.Duration `json:"windowNs"`
	Each      int64         `json:"each"` // requests a window of a caller
	All       int64         `json:"all"`  // and of all
	EachLease int64         `json:"eachLease"`
	AllLease  int64         `json:"allLease"`
	Shards    int           `json:"shards"` // of the limit for all; a caller's has 4 at most
	Sync      time.Duration `json:"syncNs"`
}

// DefaultLimits are such that about half of the default traffic is too much.
func DefaultLimits() Limits {
	return Limits{Window: time.Second, Each: 20, All: 50_000, EachLease: 10, AllLease: 1000, Shards: 64, Sync: 100 * time.Millisecond}
}

// Plan returns the scenarios that show what each algorithm and each way to spare the store
// does, of those whose names only matches; nil: all. A leaky_bucket is not in it: as a meter it
// is a token_bucket. The error says which parameter or limit is wrong.
func Plan(p Parameters, l Limits, only *regexp.Regexp) ([]Scenario, error) {
	var plan []Scenario
	shapes := l.shapes(p)
	for _, s := range shapes {
		s.limit.Name, s.limit.Rate.Window = "simulated", l.Window
		name := s.name()
		if only != nil && !only.MatchString(name) {
			continue
		}
		made, err := limiter.NewLimit(s.limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s := Scenario{Name: name, Limit: made, Parameters: p}
		if err := s.validate(); err != nil {
			return nil, err
		}
		plan = append(plan, s)
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("names: got %q, want a part of one such as %q", only, shapes[0].name())
	}
	return plan, nil
}

// shape is a limit of a plan, and what its name says beside the algorithm.
type shape struct {
	how   string
	limit limiter.Limit
}

func (s shape) name() string {
	who := "each caller: "
	if s.limit.Global {
		who = "all callers: "
	}
	return who + string(s.limit.Rate.Algorithm) + s.how
}

func (l Limits) shapes(p Parameters) (list []shape) {
	each := func(a algo.Algorithm, how string, limit limiter.Limit) {
		limit.Rate = algo.Rate{Algorithm: a, Requests: l.Each}
		list = append(list, shape{how, limit})
	}
	all := func(a algo.Algorithm, how string, spread limiter.Spread) {
		list = append(list, shape{how, limiter.Limit{Global: true, Spread: spread, Rate: algo.Rate{Algorithm: a, Requests: l.All}}})
	}
	sync, lease := fmt.Sprintf(", sync %s", l.Sync), fmt.Sprintf(", lease %d", l.AllLease)
	share, shards, cells := int(l.Each), int(min(4, l.Each)), p.cells()
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket, algo.SlidingLog} {
		each(a, "", limiter.Limit{})
	}
	each(algo.SlidingWindow, fmt.Sprintf(", on_error local, %d", share), limiter.Limit{OnError: limiter.OnErrorLocal, LocalProcesses: share})
	if l.Each > 1 { // one request can be neither leased in advance nor divided
		lease := min(l.EachLease, l.Each)
		each(algo.SlidingWindow, fmt.Sprintf(", lease %d", lease), limiter.Limit{Spread: limiter.Spread{Lease: lease}})
		each(algo.SlidingWindow, fmt.Sprintf(", shards %d", shards), limiter.Limit{Spread: limiter.Spread{Shards: shards}})
	}
	each(algo.SlidingWindow, sync, limiter.Limit{Spread: limiter.Spread{Sync: l.Sync}})
	all(algo.SlidingWindow, "", limiter.Spread{}) // and a log of so many does not fit
	all(algo.SlidingWindow, fmt.Sprintf(", shards %d", l.Shards), limiter.Spread{Shards: l.Shards})
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		all(a, lease, limiter.Spread{Lease: l.AllLease})
	}
	all(algo.SlidingWindow, sync, limiter.Spread{Sync: l.Sync})
	all(algo.TokenBucket, sync, limiter.Spread{Sync: l.Sync})
	all(algo.SlidingWindow, fmt.Sprintf(", cells %d", cells), limiter.Spread{Cells: cells})
	return list
}

// cells is how many environments decide without a store, and a quarter more: no fewer at
// once than there are cells, or the cells let too many through.
func (p Parameters) cells() int {
	return max(2, int(math.Ceil(1.25*p.Rate*p.Invocation.Seconds())))
}

// Progress is how far a plan is. It is safe for concurrent use.
type Progress struct{ arrived []atomic.Int64 }

// Requests returns how many have arrived in all scenarios.
func (p *Progress) Requests() (sum int64) {
	for i := range p.arrived {
		sum += p.arrived[i].Load()
	}
	return sum
}

// NewProgress returns that of a plan which has not begun.
func NewProgress(plan []Scenario) *Progress {
	return &Progress{make([]atomic.Int64, len(plan))}
}

// RunPlan runs the scenarios of a plan, so many at once, and returns their results in the
// order of the plan. progress may be nil.
func RunPlan(ctx context.Context, plan []Scenario, atOnce int, progress *Progress) ([]Result, error) {
	if progress == nil {
		progress = NewProgress(plan)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]Result, len(plan))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, atOnce) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(plan) || ctx.Err() != nil {
					return
				}
				r, err := Run(ctx, plan[i], &progress.arrived[i])
				if err != nil {
					cancel(err)
					return
				}
				results[i] = r
			}
		})
	}
	wg.Wait()
	return results, context.Cause(ctx)
}
