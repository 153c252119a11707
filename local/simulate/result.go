package simulate

import (
	"math"
	"time"
)

// Result counts the requests of a Scenario after its warm-up. Each request counts in one of
// Allowed, Refused, Degraded and Away.
type Result struct {
	Name         string `json:"name"`
	Environments int    `json:"environments"`
	Limit        int64  `json:"limit"` // capacity of the limit
	Requests     int64  `json:"requests"`
	Allowed      int64  `json:"allowed"`
	Refused      int64  `json:"refused"`
	// Degraded counts requests that the store did not decide, because it throttled or was too
	// late. The limiter refused them as busy, or on_error decided.
	Degraded int64 `json:"degraded"`
	// Away counts requests that found no free environment within a second.
	Away int64 `json:"away"`
	// Admitted is the number of admitted requests in each second. It includes requests that on_error
	// admitted.
	Admitted []int64 `json:"admitted"`

	// Oracle is the number of requests that an oracle admits. The oracle sees all requests in order of
	// time.
	Oracle int64 `json:"oracle"`
	// WronglyRefused is a sum over all windows of all callers. A window adds the number of requests that
	// the oracle admits minus the number that the limiter admits. A window with a negative difference
	// adds 0.
	WronglyRefused int64 `json:"wronglyRefused"`
	// Over counts the requests that were admitted over the limit. For this number, the algorithm runs
	// again on only the admitted requests, in order of time. Over is the number of requests that this
	// run refuses. OverMost is the largest such number in one window of one caller.
	Over     int64 `json:"over"`
	OverMost int64 `json:"overMost"`

	Cached int64 `json:"cached"` // refused from the denial cache, without a call
	Calls  int64 `json:"calls"`
	// Units are write units of DynamoDB or scripts of ElastiCache. Reads are read units of
	// DynamoDB.
	Units int64 `json:"units"`
	Reads int64 `json:"reads"`
	// Settled is the part of Units that settles requests after their answers.
	Settled int64 `json:"settled,omitempty"`
	// Hottest is the largest number of units of one item in a second.
	Hottest   float64 `json:"hottest"`
	Throttled float64 `json:"throttledPerSecond"`

	P50 time.Duration `json:"p50Ns"` // P50 and P99 are quantiles of the duration of a decision
	P99 time.Duration `json:"p99Ns"`
	// Concurrency is the Lambda quota that the traffic needs: one unit for each environment, and at
	// least one unit for each ten requests a second.
	Concurrency int `json:"concurrency"`
	// Dollars is the cost of the authorizer and the store for a million requests.
	Dollars float64 `json:"dollarsPerMillion"`
}

// requestsEach is the number of synchronous requests a second that Lambda admits for each
// unit of concurrency.
const requestsEach = 10

// tally counts decisions.
type tally struct {
	Result
	billed int64    // time that Lambda bills, in multiples of billing
	took   []uint32 // number of decisions for each microsecond of duration
}

func newTally(s *Scenario) *tally {
	return &tally{
		Result: Result{
			Name: s.Name, Environments: s.fleet(), Limit: s.Limit.Machine().Capacity(),
			Admitted:    make([]int64, int(math.Ceil(s.Measured.Seconds()))),
			Concurrency: max(s.fleet(), int(math.Ceil(s.Rate/requestsEach))),
		},
		took: make([]uint32, s.Timeout/time.Microsecond+1),
	}
}

// count passes a request to the judge, and adds it to the tally unless it belongs to the warm-up.
func (s *simulation) count(r *request) {
	s.judge.add(r)
	if r.at < s.from {
		return
	}
	t := s.tally
	t.Requests++
	if r.away {
		t.Away++
		return
	}
	switch {
	case r.degraded:
		t.Degraded++
	case r.admitted:
		t.Allowed++
	default:
		t.Refused++
	}
	if r.admitted {
		t.Admitted[r.at.Sub(s.from)/time.Second]++
	}
	if r.cached {
		t.Cached++
	}
	took := time.Duration(r.took)
	t.billed += int64((took + s.Invocation + billing - 1) / billing)
	t.took[took/time.Microsecond]++
}

// result returns the Result of a simulation that has ended.
func (s *simulation) result() Result {
	t, m, v := s.tally, s.meter, s.judge.close()
	r := t.Result
	r.Calls, r.Units, r.Reads, r.Hottest = m.calls, m.writes, int64(math.Ceil(m.reads)), m.hottest
	r.Settled = m.settled
	for _, e := range s.all {
		t.billed += int64(e.settling / billing)
	}
	r.Throttled = float64(m.throttled) / s.Measured.Seconds()
	r.Oracle, r.WronglyRefused, r.Over, r.OverMost = v.due, v.wronglyRefused, v.over, v.overMost
	r.P50, r.P99 = t.quantile(0.5), t.quantile(0.99)
	if r.Requests > 0 {
		r.Dollars = s.dollars(float64(r.Requests))
	}
	return r
}

// quantile returns the q-th quantile of the durations.
func (t *tally) quantile(q float64) time.Duration {
	rank := int64(q * float64(t.Requests-t.Away-1))
	for i, n := range t.took {
		if rank -= int64(n); rank < 0 {
			return time.Duration(i) * time.Microsecond
		}
	}
	return 0
}
