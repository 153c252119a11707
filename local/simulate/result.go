package simulate

import (
	"math"
	"slices"
	"time"
)

// Result is what became of the requests of a Scenario that came after its warm-up. Of
// each, one of Allowed, Refused, Degraded and Away counts.
type Result struct {
	Name     string `json:"name"`
	Limit    int64  `json:"limit"` // its capacity
	Requests int64  `json:"requests"`
	Allowed  int64  `json:"allowed"`
	Refused  int64  `json:"refused"`
	// Degraded is what the store did not decide, because it throttled or was too late: it
	// was let through, or with OnErrorLocal decided by an environment's share.
	Degraded int64 `json:"degraded"`
	// Away is what Lambda turned away, because there were Parameters.Environments.
	Away int64 `json:"away"`

	// WronglyRefused is how many more an oracle admits that sees all requests in the order of
	// their instants, in those windows of those callers in which it admits more.
	WronglyRefused int64 `json:"wronglyRefused"`
	// Over is how many were admitted that the algorithm does not admit, if it is asked for
	// those that were, in the order of their instants; OverMost is the most of them in one
	// window of one caller.
	Over     int64 `json:"over"`
	OverMost int64 `json:"overMost"`

	Remembered int64 `json:"remembered"` // refused without a call
	Calls      int64 `json:"calls"`
	// Units are DynamoDB's write units, or the scripts of ElastiCache; Reads DynamoDB's
	// read units.
	Units int64 `json:"units"`
	Reads int64 `json:"reads"`
	// Hottest is the most units that one item took in a second.
	Hottest   float64 `json:"hottest"`
	Throttled float64 `json:"throttledPerSecond"`

	P50 time.Duration `json:"p50Ns"` // that a decision took
	P99 time.Duration `json:"p99Ns"`
	// Environments is how many there were in the end.
	Environments int `json:"environments"`
	// Concurrency is the quota of Lambda that this needs: an environment each, and one for
	// each ten requests a second.
	Concurrency int `json:"concurrency"`
	// Dollars is what a million requests cost: the authorizer and the store.
	Dollars float64 `json:"dollarsPerMillion"`
}

// requestsEach is how many synchronous requests a second Lambda admits for each one that an
// account may run at once.
const requestsEach = 10

// result judges the log of s, which it sorts.
func (s *simulation) result() Result {
	r := Result{
		Name: s.Name, Limit: s.Limit.Machine().Capacity(),
		Remembered: s.decisions.remembered, Calls: s.meter.calls, Units: s.meter.writes, Reads: s.meter.reads,
		Hottest: s.meter.hottest, Throttled: float64(s.meter.throttled) / s.Measured.Seconds(), Environments: len(s.all),
		Concurrency: max(len(s.all), int(math.Ceil(s.Rate/requestsEach))),
	}
	latencies := make([]uint32, 0, len(s.log))
	for i := range s.log {
		q := &s.log[i]
		if q.at < s.from {
			continue
		}
		r.Requests++
		if !q.away {
			latencies = append(latencies, q.latency)
		}
		switch {
		case q.away:
			r.Away++
		case q.degraded:
			r.Degraded++
		case q.admitted:
			r.Allowed++
		default:
			r.Refused++
		}
	}
	slices.Sort(latencies)
	r.P50, r.P99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
	if r.Requests > 0 {
		r.Dollars = s.dollars(float64(r.Requests))
	}
	if s.Limit.Global {
		for i := range s.log {
			s.log[i].caller = 0
		}
	}
	v := judge(s.Limit.Machine(), int64(s.Limit.Rate.Window), s.from, s.log)
	r.WronglyRefused, r.Over, r.OverMost = v.wronglyRefused, v.over, v.overMost
	return r
}

// quantile returns the q-th quantile of sorted microseconds.
func quantile(sorted []uint32, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return time.Duration(sorted[int(q*float64(len(sorted)-1))]) * time.Microsecond
}
