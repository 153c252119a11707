package simulate

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// long makes the tests of sync_ms simulate a minute of traffic, which takes several
// minutes.
var long = os.Getenv("WEIR_SOAK") != ""

// synced returns a scenario with a limit for all callers. Invocations take only the time of their store calls, so that
// few environments can serve all requests.
func synced(t *testing.T, requests int64, environments int, rate float64, during time.Duration) Scenario {
	p := Default(DynamoDB)
	p.Environments, p.Rate, p.Invocation, p.Warmup, p.Measured = environments, rate, 0, 0, during
	return Scenario{Name: "sync", Parameters: p, Limit: limit(t, limiter.Limit{
		Global: true, Rate: algo.Rate{Requests: requests, Window: time.Second}, Spread: limiter.Spread{Sync: limiter.DefaultSync},
	})}
}

func run(t *testing.T, s Scenario) Result {
	t.Helper()
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A limit of 100,000 requests per second for all callers (of 10,000 without WEIR_SOAK), with sync_ms: its item gets
// at most 500 writes in any second. If callers send half of the limit, at most 1 % are refused. If they send twice the
// limit, at most 5 % too many are admitted per second, after some seconds.
func TestRunSync(t *testing.T) {
	type test struct {
		environments    int
		rate            float64
		during, settled time.Duration // simulated time, and the time before admissions are checked
	}
	requests, tests := int64(10_000), []test{{300, 5000, 3 * time.Second, 0}, {600, 20_000, 7 * time.Second, 6 * time.Second}}
	if long {
		requests, tests = 100_000, nil
		for _, environments := range []int{600, 6000} {
			for _, rate := range []float64{50_000, 200_000} {
				tests = append(tests, test{environments, rate, time.Minute, 10 * time.Second})
			}
		}
	}
	for _, c := range tests {
		during, settled := c.during, c.settled
		r := run(t, synced(t, requests, c.environments, c.rate, during))
		over := int64(0)
		for _, admitted := range r.Admitted[settled/time.Second:] {
			over = max(over, admitted-r.Limit)
		}
		refused, most := 100*float64(r.Refused)/float64(r.Requests), 100*float64(over)/float64(r.Limit)
		t.Logf("%d environments at %g/s for %s: at most %.0f writes a second, %.2f %% refused, at most %.1f %% over the limit in a second "+
			"after %s", c.environments, c.rate, during, r.hottest, refused, most, settled)
		if r.hottest > 500 || c.rate < float64(r.Limit) && refused > 1 || most > 5 || r.Degraded > 0 || r.throttled > 0 {
			t.Errorf("result: got %+v, want at most 500 writes a second, 1 %% refused below the limit, 5 %% over it, and none degraded or throttled",
				r)
		}
	}
}

// After demand rises fivefold, the environments admit at most the excess that Spread.Sync
// documents.
func TestRunSync_surge(t *testing.T) {
	if !long {
		t.Skip("takes some minutes: set WEIR_SOAK=1")
	}
	for _, environments := range []int{600, 6000} {
		before, during := 12*time.Second, 12*time.Second
		if environments > 600 {
			before, during = 45*time.Second, 30*time.Second
		}
		s := synced(t, 100_000, environments, 250_000, before+during)
		s.rate = func(since time.Duration) float64 {
			if since < before {
				return 50_000
			}
			return s.Rate
		}
		r := run(t, s)
		over, limit, n := 0.0, float64(r.Limit), float64(environments)
		for _, admitted := range r.Admitted[before/time.Second:] {
			over += max(0, float64(admitted)-1.05*limit)
		}
		interval := max(0.5, n/360)
		most := (2+interval/5)*limit + n*(1+2*math.Sqrt(limit/n))
		t.Logf("%d environments: %.0f over the limit in %s after a fivefold rise, at most %.0f", environments, over, during, most)
		if over > most {
			t.Errorf("%d environments: got %.0f over the limit, want at most %.0f", environments, over, most)
		}
	}
}
