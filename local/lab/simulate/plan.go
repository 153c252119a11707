package simulate

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Limits are the limits of a plan, one for each caller and one for all callers together. The
// scenarios use each limit strictly and with each kind of Spread.
type Limits struct {
	Window    time.Duration `json:"windowNs"`
	Each      int64         `json:"each"` // requests per window of one caller
	All       int64         `json:"all"`  // requests per window of all callers
	EachLease int64         `json:"eachLease"`
	AllLease  int64         `json:"allLease"`
	Shards    int           `json:"shards"` // shards of the limit for all callers; a caller's own limit has at most 4
	Sync      time.Duration `json:"syncNs"`
}

// DefaultLimits returns limits that refuse about half of the default traffic.
func DefaultLimits() Limits {
	return Limits{Window: time.Second, Each: 20, All: 50_000, EachLease: 10, AllLease: 1000, Shards: 64, Sync: 100 * time.Millisecond}
}

// Plan returns the scenarios whose names match the expression only, or all scenarios if only is nil. The
// scenarios cover the algorithms and the kinds of spread. No scenario has a leaky_bucket, because it admits
// the same requests as token_bucket. An error names the invalid parameter or limit.
func Plan(p Parameters, l Limits, only *regexp.Regexp) ([]Scenario, error) {
	var plan []Scenario
	shapes := l.shapes()
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
		plan = append(plan, s)
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("names: got %q, want part of a name such as %q", only, shapes[0].name())
	}
	return plan, nil
}

// shape is a limit of a plan. how follows the algorithm in its name.
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

func (l Limits) shapes() (list []shape) {
	each := func(a algo.Algorithm, how string, limit limiter.Limit) {
		limit.Rate = algo.Rate{Algorithm: a, Requests: l.Each}
		list = append(list, shape{how, limit})
	}
	all := func(a algo.Algorithm, how string, spread limiter.Spread) {
		list = append(list, shape{how, limiter.Limit{Global: true, Spread: spread, Rate: algo.Rate{Algorithm: a, Requests: l.All}}})
	}
	sync, lease := fmt.Sprintf(", sync %s", l.Sync), fmt.Sprintf(", lease %d", l.AllLease)
	processes, shards := int(l.Each), int(min(4, l.Each))
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket, algo.SlidingLog} {
		each(a, "", limiter.Limit{})
	}
	each(algo.SlidingWindow, fmt.Sprintf(", on_error local, %d", processes), limiter.Limit{OnError: limiter.OnErrorLocal,
		LocalProcesses: processes})
	if l.Each > 1 { // a limit of one request cannot be leased or divided
		lease := min(l.EachLease, l.Each)
		each(algo.SlidingWindow, fmt.Sprintf(", lease %d", lease), limiter.Limit{Spread: limiter.Spread{Lease: lease}})
		each(algo.SlidingWindow, fmt.Sprintf(", shards %d", shards), limiter.Limit{Spread: limiter.Spread{Shards: shards}})
	}
	each(algo.SlidingWindow, sync, limiter.Limit{Spread: limiter.Spread{Sync: l.Sync}})
	all(algo.SlidingWindow, "", limiter.Spread{}) // not sliding_log: a log of so many entries does not fit into an item
	all(algo.SlidingWindow, fmt.Sprintf(", shards %d", l.Shards), limiter.Spread{Shards: l.Shards})
	for _, a := range []algo.Algorithm{algo.SlidingWindow, algo.FixedWindow, algo.TokenBucket} {
		all(a, lease, limiter.Spread{Lease: l.AllLease})
	}
	all(algo.SlidingWindow, sync, limiter.Spread{Sync: l.Sync})
	all(algo.TokenBucket, sync, limiter.Spread{Sync: l.Sync})
	return list
}
