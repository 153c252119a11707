package simulate

import (
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// Leases admit nothing over a limit, and refuse nothing too early without a lease. With -figures, the test prints the table of
// BENCHMARKS.md, in half a minute.
func TestLeases(t *testing.T) {
	second := time.Second
	if !*figures {
		second /= 10
	}
	minute := 60 * second
	for _, policy := range []LeasePolicy{{}, {Need: 2, Horizon: second, Part: 100}, {Need: 2, Horizon: 10 * second, Part: 100},
		{Need: 2, Horizon: 10 * second, Part: 100, Return: true}, {Need: 2, Horizon: minute, Part: 100},
		{Need: 8, Horizon: minute, Part: 100}, {Need: 2, Horizon: minute, Part: 1000}} {
		for _, requests := range []int64{600, 10_000} {
			p := Default(DynamoDB)
			p.Rate, p.Callers, p.Environments, p.Warmup, p.Measured = 2000, 100_000, 50, minute, 2*minute
			r := Leases(&Scenario{Parameters: p, Limit: limit(t, limiter.Limit{Rate: algo.Rate{Requests: requests, Window: minute}})}, policy)
			t.Logf("%d a minute, %+v: %.2f writes, %.1f %% and at most %.1f %% early", requests, policy, r.Writes, 100*r.Early, 100*r.EarlyMost)
			if r.Over != 0 || policy.Need == 0 && r.Early != 0 {
				t.Errorf("%+v: got %+v, want nothing over the limit, and without leases nothing early", policy, r)
			}
		}
	}
}
