package simulate

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Limits are the limits of a plan, one for each caller and one for all callers together. Their window is a second. The
// scenarios use each limit strictly and with each kind of Spread.
type Limits struct {
	Each, All           int64 // requests a second of one caller and of all callers
	EachLease, AllLease int64
	Shards              int // of the limit for all callers; a caller's own limit has 4
	Sync                time.Duration
}

// DefaultLimits returns limits that refuse about half of the default traffic.
func DefaultLimits() Limits {
	return Limits{Each: 20, All: 50_000, EachLease: 10, AllLease: 1000, Shards: 64, Sync: 100 * time.Millisecond}
}

// shape is a limit of a plan without its number. how follows the algorithm in its name.
type shape struct {
	algorithm algo.Algorithm
	how       string
	limit     limiter.Limit
}

// Plan returns the scenarios whose names match the expression only, or all scenarios if only is nil. The
// scenarios cover the algorithms and the kinds of spread. No scenario has a leaky_bucket, because it admits
// the same requests as token_bucket. An error names the invalid parameter or limit.
func Plan(p Parameters, l Limits, only *regexp.Regexp) (plan []Scenario, err error) {
	for _, s := range l.shapes() {
		who, requests := "each caller: ", l.Each
		if s.limit.Global {
			who, requests = "all callers: ", l.All
		}
		name := who + string(s.algorithm) + s.how
		if only != nil && !only.MatchString(name) {
			continue
		}
		s.limit.Name, s.limit.Rate = "simulated", algo.Rate{Algorithm: s.algorithm, Requests: requests, Window: time.Second}
		limit, err := limiter.NewLimit(s.limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		plan = append(plan, Scenario{Name: name, Limit: limit, Parameters: p})
	}
	if len(plan) == 0 {
		return nil, fmt.Errorf("names: got %q, want part of a name such as all callers: sliding_window", only)
	}
	return plan, nil
}

func (l Limits) shapes() []shape {
	each := func(spread limiter.Spread) limiter.Limit { return limiter.Limit{Spread: spread} }
	all := func(spread limiter.Spread) limiter.Limit { return limiter.Limit{Global: true, Spread: spread} }
	sync, lease := limiter.Spread{Sync: l.Sync}, limiter.Spread{Lease: l.AllLease}
	synced, leased := fmt.Sprintf(", sync %s", l.Sync), fmt.Sprintf(", lease %d", l.AllLease)
	return []shape{
		{algo.SlidingWindow, "", limiter.Limit{}},
		{algo.FixedWindow, "", limiter.Limit{}},
		{algo.TokenBucket, "", limiter.Limit{}},
		{algo.SlidingLog, "", limiter.Limit{}},
		{algo.SlidingWindow, ", on_error local", limiter.Limit{OnError: limiter.OnErrorLocal, LocalProcesses: int(l.Each)}},
		{algo.SlidingWindow, fmt.Sprintf(", lease %d", l.EachLease), each(limiter.Spread{Lease: l.EachLease})},
		{algo.SlidingWindow, ", shards 4", each(limiter.Spread{Shards: 4})},
		{algo.SlidingWindow, synced, each(sync)},
		{algo.SlidingWindow, "", all(limiter.Spread{})}, // not sliding_log: a log of so many entries does not fit into an item
		{algo.SlidingWindow, fmt.Sprintf(", shards %d", l.Shards), all(limiter.Spread{Shards: l.Shards})},
		{algo.SlidingWindow, leased, all(lease)},
		{algo.FixedWindow, leased, all(lease)},
		{algo.TokenBucket, leased, all(lease)},
		{algo.SlidingWindow, synced, all(sync)},
		{algo.TokenBucket, synced, all(sync)},
	}
}
