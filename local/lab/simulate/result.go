package simulate

import (
	"math"
	"time"
)

// Result counts the requests after the warm-up. Each is in exactly one of Allowed, Refused,
// Degraded and Away.
type Result struct {
	Name         string
	Environments int
	Limit        int64 // capacity of the limit
	Requests     int64
	Allowed      int64
	Refused      int64
	// Degraded counts requests that the store did not decide because it throttled or answered late.
	// The limiter refused them as busy, or on_error decided.
	Degraded int64
	// Away counts requests that waited a second without finding a free environment.
	Away int64
	// Admitted is the number of admitted requests in each second, including those that on_error
	// admitted.
	Admitted []int64

	// Oracle is the number of requests that the algorithm admits if it gets all requests in order
	// of time.
	Oracle int64
	// WronglyRefused is the number of requests that the oracle admits in addition, summed over the
	// windows of callers in which it admits more than the limiter.
	WronglyRefused int64
	// Over is the number of requests admitted over the limit: those that the algorithm refuses if
	// it gets only the admitted requests, in order of time. OverMost is the largest such number in
	// one window of one caller.
	Over     int64
	OverMost int64

	Cached int64 // refused by the denial cache, without a store call
	Calls  int64
	// Units are DynamoDB's write units or ElastiCache's scripts. Reads are DynamoDB's read units.
	Units int64
	Reads int64
	// Hottest is the largest number of units of one item in one second.
	Hottest   float64
	Throttled float64

	P50 time.Duration // quantiles of the duration of a decision
	P99 time.Duration
	// Concurrency is the Lambda quota that the traffic needs: one per environment, but at least one
	// per ten requests a second.
	Concurrency int
	// Dollars is the cost of the authorizer and the store per million requests.
	Dollars float64
	// Month is the cost of 30 days at the rate of the scenario.
	Month float64
}

const month = 30 * 24 * time.Hour

// requestsEach is how many synchronous requests per second Lambda accepts per unit of concurrency.
const requestsEach = 10

type tally struct {
	Result
	billed int64    // duration that Lambda bills, in units of billing
	took   []uint32 // index: duration of a decision in microseconds; value: number of decisions
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

// count gives a request to the judge, and adds it to the tally if the warm-up is over.
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

func (s *simulation) result() Result {
	t, m, v := s.tally, s.meter, s.judge.close()
	r := t.Result
	r.Calls, r.Units, r.Reads, r.Hottest = m.calls, m.writes, int64(math.Ceil(m.reads)), m.hottest
	r.Throttled = float64(m.throttled) / s.Measured.Seconds()
	r.Oracle, r.WronglyRefused, r.Over, r.OverMost = v.due, v.wronglyRefused, v.over, v.overMost
	r.P50, r.P99 = t.quantile(0.5), t.quantile(0.99)
	if r.Requests > 0 {
		r.Dollars = s.dollars(float64(r.Requests))
		r.Month = r.Dollars / 1e6 * s.Rate * month.Seconds()
	}
	return r
}

func (t *tally) quantile(q float64) time.Duration {
	rank := int64(q * float64(t.Requests-t.Away-1))
	for i, n := range t.took {
		rank -= int64(n)
		if rank < 0 {
			return time.Duration(i) * time.Microsecond
		}
	}
	return 0
}

// Prices in dollars in us-east-1, from infra/COSTS.md. API Gateway and logs cost the same for all
// limits and are left out.
const (
	pricePerWrite   = 0.625 / 1e6 // DynamoDB on demand
	pricePerRead    = 0.125 / 1e6
	pricePerECPU    = 0.0023 / 1e6 // ElastiCache Serverless
	ecpuPerScript   = 3
	pricePerRequest = 0.20 / 1e6 // Lambda, arm64
	pricePerGBs     = 13.33 / 1e6
	gigabytes       = 0.5 // authorizer's memory in GB
	billing         = time.Millisecond
)

func (s *simulation) dollars(requests float64) float64 {
	cost := requests*pricePerRequest + float64(s.tally.billed)*billing.Seconds()*gigabytes*pricePerGBs
	if s.Store == DynamoDB {
		cost += float64(s.meter.writes)*pricePerWrite + float64(s.meter.reads)*pricePerRead
	} else {
		cost += float64(s.meter.writes) * ecpuPerScript * pricePerECPU
	}
	return cost / requests * 1e6
}
