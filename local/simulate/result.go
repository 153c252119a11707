package simulate

import (
	"math"
	"slices"
	"time"
)

// Result counts the requests of a Scenario after its warm-up. Each request counts in one of
// Allowed, Refused, Degraded and Away.
type Result struct {
	Name     string `json:"name"`
	Limit    int64  `json:"limit"` // its capacity
	Requests int64  `json:"requests"`
	Allowed  int64  `json:"allowed"`
	Refused  int64  `json:"refused"`
	// Degraded counts requests that the store did not decide, because it throttled or was too
	// late. They were admitted, or with OnErrorLocal decided by an environment's share.
	Degraded int64 `json:"degraded"`
	// Away counts requests that Lambda rejected, because Parameters.Environments were busy.
	Away int64 `json:"away"`

	// WronglyRefused counts the requests that an oracle admits in addition. The oracle sees all
	// requests in order of time. Only windows of a caller in which it admits more count.
	WronglyRefused int64 `json:"wronglyRefused"`
	// Over counts the admitted requests that the algorithm refuses when it replays only the
	// admitted ones in order of time. OverMost is the largest count in one window of one
	// caller.
	Over     int64 `json:"over"`
	OverMost int64 `json:"overMost"`

	Remembered int64 `json:"remembered"` // refused from the denial cache, without a call
	Calls      int64 `json:"calls"`
	// Units are write units of DynamoDB or scripts of ElastiCache. Reads are read units of
	// DynamoDB.
	Units int64 `json:"units"`
	Reads int64 `json:"reads"`
	// Hottest is the largest number of units of one item in a second.
	Hottest   float64 `json:"hottest"`
	Throttled float64 `json:"throttledPerSecond"`

	P50 time.Duration `json:"p50Ns"` // of the time of a decision
	P99 time.Duration `json:"p99Ns"`
	// Environments is the number at the end.
	Environments int `json:"environments"`
	// Concurrency is the Lambda quota that the traffic needs: one for each environment, and at
	// least one for each ten requests a second.
	Concurrency int `json:"concurrency"`
	// Dollars is the cost of a million requests: the authorizer and the store.
	Dollars float64 `json:"dollarsPerMillion"`
}

// requestsEach is the number of synchronous requests a second that Lambda admits for each
// unit of concurrency.
const requestsEach = 10

// result judges the log of s, which it sorts.
func (s *simulation) result() Result {
	r := Result{
		Name: s.Name, Limit: s.Limit.Machine().Capacity(),
		Remembered: s.decisions.remembered, Calls: s.meter.calls, Units: s.meter.writes, Reads: int64(math.Ceil(s.meter.reads)),
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
