package simulate

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// long makes the tests of fleets simulate a minute. Such a run takes several minutes.
var long = os.Getenv("WEIR_SOAK") != ""

// fleetOf returns a fleet with the limit for all callers of functions/rules.json, stored in DynamoDB.
func fleetOf(t *testing.T, environments int, rate func(time.Duration) float64, during time.Duration) Fleet {
	return Fleet{Environments: environments, Rate: rate, Duration: during, Seed: 1, Limit: limit(t, limiter.Limit{
		Global: true, Rate: algo.Rate{Requests: 100_000, Window: time.Second}, Spread: limiter.Spread{Adaptive: true},
	})}
}

// A limit for all callers allows 100,000 requests a second with adaptive shares. Its item gets at most
// 500 writes in any second. At half of the limit, at most 1 % of the requests are refused. At twice
// the limit, settled environments admit at most 5 % over the limit.
func TestRunFleet(t *testing.T) {
	for _, c := range []struct {
		environments   int
		rate           float64
		short, settled time.Duration // 0 means that only WEIR_SOAK runs the case
	}{
		{600, 50_000, 3 * time.Second, 0},
		{600, 200_000, 0, 0},
		{6000, 50_000, 0, 0},
		{6000, 200_000, 7 * time.Second, 6 * time.Second},
	} {
		during, settled := c.short, c.settled
		if long {
			during, settled = time.Minute, 10*time.Second
		}
		if during == 0 {
			continue
		}
		f := fleetOf(t, c.environments, Steady(c.rate), during)
		seconds, err := RunFleet(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		limit, requests, refused, writes, over := f.Limit.Rate.Requests, int64(0), int64(0), int64(0), int64(0)
		for i, s := range seconds {
			requests, refused, writes = requests+s.Requests, refused+s.Requests-s.Admitted, max(writes, s.Writes)
			if s.Degraded > 0 || s.Throttled > 0 {
				t.Errorf("%d environments at %g/s, second %d: got %d degraded and %d throttled, want 0", c.environments, c.rate, i, s.Degraded, s.Throttled)
			}
			if time.Duration(i)*time.Second >= settled {
				over = max(over, s.Admitted-limit)
			}
		}
		t.Logf("%d environments at %g/s for %s: at most %d writes a second, %.2f %% refused, at most %.1f %% over the limit in a second after %s",
			c.environments, c.rate, during, writes, 100*float64(refused)/float64(requests), 100*float64(over)/float64(limit), settled)
		if writes > 500 || c.rate < float64(limit) && refused*100 > requests || over*100 > 5*limit {
			t.Errorf("fleet: want at most 500 writes a second, 1 %% refused below the limit and 5 %% admitted over the limit")
		}
	}
}

// After a fivefold rise of the demand, the overshoot is at most the maximum that Spread.Adaptive
// documents.
func TestRunFleet_surge(t *testing.T) {
	if !long {
		t.Skip("takes some minutes: set WEIR_SOAK=1")
	}
	for _, environments := range []int{600, 6000} {
		before, during := 12*time.Second, 12*time.Second
		if environments > 600 {
			before, during = 45*time.Second, 30*time.Second
		}
		f := fleetOf(t, environments, func(since time.Duration) float64 {
			if since < before {
				return 50_000
			}
			return 250_000
		}, before+during)
		seconds, err := RunFleet(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		over, limit, n := 0.0, float64(f.Limit.Rate.Requests), float64(environments)
		for _, s := range seconds[before/time.Second:] {
			over += max(0, float64(s.Admitted)-1.05*limit)
		}
		interval := max(0.5, n/360)
		most := (2+interval/5)*limit + n*(1+2*math.Sqrt(limit/n))
		t.Logf("%d environments: %.0f over the limit in %s after a fivefold rise, at most %.0f", environments, over, during, most)
		if over > most {
			t.Errorf("%d environments: got %.0f over the limit, want at most %.0f", environments, over, most)
		}
	}
}

// Two runs of the same fleet return the same result.
func TestRunFleet_deterministic(t *testing.T) {
	f := fleetOf(t, 50, Steady(5000), 3*time.Second)
	var first []Second
	for range 2 {
		seconds, err := RunFleet(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = seconds
		}
		for i := range seconds {
			if seconds[i] != first[i] {
				t.Errorf("second %d: got %+v, then %+v, want equal results", i, first[i], seconds[i])
			}
		}
	}
}
