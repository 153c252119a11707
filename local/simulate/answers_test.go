package simulate

import (
	"math"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// counted returns a scenario of a limit with a Count, in which every request has the same cost.
func counted(t *testing.T, store Store, of limiter.Counted, requests, reserve, cost int64) Scenario {
	t.Helper()
	p := small(store)
	p.Rate, p.Environments, p.Warmup, p.Measured = 1000, 300, time.Second, time.Second
	return Scenario{
		Name: string(of), Parameters: p, Reserve: reserve, Limit: limit(t, limiter.Limit{Count: limiter.Count{Of: of}, Rate: algo.Rate{Requests: requests, Window: time.Second}}),
		Answers: Answers{Duration: 50 * time.Millisecond, DurationP99: 100 * time.Millisecond, Cost: cost, CostP99: cost, Failures: 0.25},
	}
}

// An admitted request costs one write for its charge, and one for its settlement if that changes
// the charge. No request is over a limit that is never reached.
func TestRun_settlements(t *testing.T) {
	for _, store := range []Store{DynamoDB, ElastiCache} {
		for name, c := range map[string]struct {
			s    Scenario
			want float64 // writes of settlements per admitted request
		}{
			"the reserve": {counted(t, store, limiter.CountCost, 1e6, 4, 4), 0},
			"less":        {counted(t, store, limiter.CountCost, 1e6, 4, 3), 1},
			"more":        {counted(t, store, limiter.CountBytes, 1e6, 4, 9), 1},
			"failures":    {counted(t, store, limiter.CountFailures, 1e6, 1, 1), 0.75},
			"concurrent":  {counted(t, store, limiter.CountConcurrent, 390, 1, 1), 1},
		} {
			r := simulated(t, c.s)
			settled := float64(r.Settled) / float64(r.Allowed)
			if r.Allowed != r.Requests || math.Abs(settled-c.want) > 0.04 || c.want == math.Trunc(c.want) && settled != c.want {
				t.Errorf("%s, %s: got %d of %d admitted and %g settlements each, want all and %g", store, name, r.Allowed, r.Requests, settled, c.want)
			}
			// At first, each environment wrongly assumes that the item has no slots. guesses counts
			// the writes that fail because of this.
			guesses := int64(0)
			if c.s.Limit.Count.Of == limiter.CountConcurrent && store == DynamoDB {
				guesses = int64(r.Environments)
			}
			if charged := r.Units - r.Settled; charged < r.Allowed || charged > r.Allowed+guesses+r.Allowed/100 {
				t.Errorf("%s, %s: got %d units of %d charges, want one each and at most %d wrong guesses", store, name, charged, r.Allowed, guesses)
			}
			if r.Calls != r.Units {
				t.Errorf("%s, %s: got %d calls and %d units, want one unit a call", store, name, r.Calls, r.Units)
			}
		}
	}
}

// Requests in flight never exceed the limit. A request is wrongly refused only while another
// request's release is on its way to the store.
func TestRun_concurrent(t *testing.T) {
	for _, store := range []Store{DynamoDB, ElastiCache} {
		r := simulated(t, counted(t, store, limiter.CountConcurrent, 2, 1, 1))
		if r.Over != 0 || r.Refused == 0 || r.Degraded != 0 || r.WronglyRefused*10 > r.Oracle {
			t.Errorf("%s: got %d over the limit, %d refused, %d degraded and %d of %d wrongly refused; want 0, some, 0 and at most a tenth", store, r.Over, r.Refused, r.Degraded, r.WronglyRefused, r.Oracle)
		}
	}
}

// A request is over the limit if it begins while as many requests as the limit are in flight. The
// judge looks at requests in the order in which they begin.
func TestJudge_concurrent(t *testing.T) {
	one := limit(t, limiter.Limit{Count: limiter.Count{Of: limiter.CountConcurrent}, Rate: algo.Rate{Requests: 1, Window: time.Minute}})
	j := newJudge(&Scenario{Limit: one, Reserve: 1}, 0)
	for _, r := range []request{
		{at: 10, took: 5, lasts: 10, admitted: true},  // in flight from 15 to 25
		{at: 11, took: 1, lasts: 2, admitted: true},   // in flight from 12 to 14
		{at: 20, took: 4, lasts: 10, admitted: true},  // in flight from 24 to 34: over the limit
		{at: 30, took: 4, lasts: 10, admitted: true},  // in flight from 34 to 44
		{at: 100, took: 1, lasts: 10, admitted: true}, // the oracle also admits the first, third and fourth request
	} {
		j.add(&r)
	}
	if v := j.close(); v.over != 1 || v.due != 4 {
		t.Errorf("got %d over the limit and %d due, want 1 and 4", v.over, v.due)
	}
}

// The measured time includes the end of a period, so each caller can use the quotas of two periods.
func TestPlanRules_period(t *testing.T) {
	p := small(DynamoDB)
	p.Callers, p.Exponent, p.Rate = 10, 0, 1000
	plan, err := PlanRules(p, Answers{}, parsed(t, `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":5,"period":"month","time_zone":"Europe/Berlin","anchor":31}}}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := plan[0]
	if at := s.startsAt().Add(s.Warmup + s.Measured/2).Time().String(); at != "2030-01-30 23:00:00 +0000 UTC" {
		t.Errorf("got the end of a period at %s, want the beginning of the 31st in Berlin", at)
	}
	if r := simulated(t, s); r.Oracle != 50 || r.Over != 0 || r.WronglyRefused != 0 || !r.Unfilled {
		t.Errorf("got %d due, %d over, %d wrongly refused and unfilled %t; want 50 in the new month, 0, 0 and true", r.Oracle, r.Over, r.WronglyRefused, r.Unfilled)
	}
}
