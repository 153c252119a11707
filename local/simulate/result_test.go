package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// The expected dollars per million requests are computed by hand. Lambda: 0.20 for invocations, and
// 0.033325 for 5 ms of 0.5 GB each. DynamoDB: 0.625 for one write each. ElastiCache: 0.0069 for
// three ECPUs each.
func TestRun_dollars(t *testing.T) {
	strict := limiter.Limit{Global: true, Rate: algo.Rate{Requests: 1e6, Window: time.Second, Algorithm: algo.FixedWindow}}
	for _, test := range []struct {
		store      Store
		invocation time.Duration
		want       float64
	}{
		{DynamoDB, time.Millisecond, 0.20 + 0.033325 + 0.625}, // 3.5 ms for the call and 1 ms for the rest are 4.5 ms, billed as 5 ms
		{ElastiCache, time.Millisecond, 0.20 + 0.033325 + 0.0069},
	} {
		p := small(test.store)
		p.Median, p.P99, p.Invocation, p.SlotECPUs = 3500*time.Microsecond, 3500*time.Microsecond, test.invocation, 1e6
		if r := simulated(t, Scenario{Name: "dollars", Limit: limit(t, strict), Parameters: p}); math.Abs(r.Dollars-test.want) > 1e-9 {
			t.Errorf("%s: cost of a million requests: got %g, want %g", test.store, r.Dollars, test.want)
		}
	}
	s := simulation{Scenario: &Scenario{Parameters: Parameters{Store: DynamoDB}}, meter: &meter{reads: 3e6}, tally: new(tally)}
	if got := s.dollars(1e6); math.Abs(got-(0.20+3*0.125)) > 1e-9 {
		t.Errorf("cost of a million requests with three reads each: got %g, want 0.575", got)
	}
}

// A write costs one unit per started KB of the item, and a read one unit per started 4 KB.
func TestTable_units(t *testing.T) {
	for entries, want := range map[int]int64{0: 1, 68: 1, 69: 2, 154: 2, 155: 3} { // 200 bytes, and 12 bytes per entry
		var state algo.State
		for i := range entries {
			state.Entries += algo.NewEntries(algo.Instant(i))
		}
		m := &meter{}
		table, err := newTable(m, 1000)
		if err != nil {
			t.Fatal(err)
		}
		table.write(limiter.User("alice"), epoch, &attempt{replace: true, next: state}, true)
		table.read(limiter.User("alice"), epoch, false, true)
		if m.writes != want || m.reads != 1 || m.calls != 2 {
			t.Errorf("%d entries: got %d write units and %g read units in %d calls, want %d and 1 in 2 calls", entries, m.writes, m.reads, m.calls, want)
		}
	}
}

// If each decision makes one round trip, its percentiles are those of the round trip.
func TestRun_percentiles(t *testing.T) {
	p := small(DynamoDB)
	p.Measured = 5 * time.Second
	r := simulated(t, Scenario{Name: "percentiles", Parameters: p, Limit: limit(t, limiter.Limit{Rate: algo.Rate{Requests: 1e6, Window: time.Second, Algorithm: algo.FixedWindow}})})
	if (r.P50-p.Median).Abs() > p.Median/20 || (r.P99-p.P99).Abs() > p.P99/10 {
		t.Errorf("percentiles: got p50 %s and p99 %s, want about %s and %s", r.P50, r.P99, p.Median, p.P99)
	}
}

// Lambda accepts ten requests per second and unit of concurrency, even if they are short.
func TestRun_concurrency(t *testing.T) {
	for environments, want := range map[int]int{100: 400, 1000: 1000} {
		p := small(DynamoDB)
		p.Environments = environments
		if r := simulated(t, Scenario{Name: "concurrency", Parameters: p, Limit: limit(t, limiter.Limit{Rate: algo.Rate{Requests: 1e6, Window: time.Second}})}); r.Concurrency != want {
			t.Errorf("%g requests a second and %d environments: got concurrency %d, want %d", p.Rate, environments, r.Concurrency, want)
		}
	}
}

// With Environments 0, the fleet has three times the mean number of busy environments, if each
// decision makes one call.
func TestParameters_fleet(t *testing.T) {
	for rate, want := range map[float64]int{100_000: 1500, 1_000_000: 15_000, 1: 1} {
		p := Default(DynamoDB)
		p.Rate = rate
		if got := p.fleet(); got != want {
			t.Errorf("%g requests a second: got %d environments, want %d", rate, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	r := Result{
		Name: "a limit", Environments: 8, Limit: 20, Requests: 2000, Allowed: 1000, Refused: 850, Degraded: 100, Away: 50, Admitted: []int64{600, 450},
		Oracle: 1250, WronglyRefused: 4, Over: 11, OverMost: 5, Cached: 300, Calls: 1700, Units: 1600, Hottest: 17, Throttled: 3,
		P50: 4 * time.Millisecond, P99: 12 * time.Millisecond, Concurrency: 200, Dollars: 1.234,
	}
	const want = "| a limit | 8 | 52.50 | 0.88 | 25.00 | 0.32 | 5.00 | 2.50 | 15.00 | 0.850 | 0.800 | 17 | 3 | 4.00 | 12.00 | 200 | 1.23 |"
	report := Report(Default(ElastiCache), DefaultLimits(), []Result{r})
	lines := strings.Split(report, "\n")
	if got := strings.Join(strings.Fields(lines[6]), " "); got != want {
		t.Errorf("line of the report: got %s, want %s", got, want)
	}
	if !strings.Contains(report, "A slot accepts 30,000 ECPUs a second, the cache 500,000. A script costs 3.") {
		t.Errorf("report: got %q, want the ECPUs of a slot, the cache and a script", lines[2])
	}
}
