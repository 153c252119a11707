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

	verdict
	meter

	Cached int64 // refused by the denial cache, without a store call

	P99 time.Duration // of the duration of a decision
	// Dollars is the cost of the authorizer and the store per million requests.
	Dollars float64

	billed int64    // duration that Lambda bills, in units of billing
	took   []uint32 // index: duration of a decision in microseconds; value: number of decisions
}

func newResult(s *Scenario) *Result {
	return &Result{
		Name: s.Name, Environments: s.fleet(), Limit: s.Limit.Machine().Capacity(),
		Admitted: make([]int64, int(math.Ceil(s.Measured.Seconds()))), took: make([]uint32, s.Timeout/time.Microsecond+1),
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
	r := *s.tally
	r.verdict, r.meter, r.P99 = s.judge.close(), *s.meter, r.quantile(0.99)
	if r.Requests > 0 {
		r.Dollars = s.dollars(float64(r.Requests))
	}
	return r
}

func (r *Result) quantile(q float64) time.Duration {
	rank := int64(q * float64(r.Requests-r.Away-1))
	for i, n := range r.took {
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
