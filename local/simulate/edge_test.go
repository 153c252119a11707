package simulate

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A distribution refuses a flood without an invocation, and nobody whom the limits admit. Only long waits are listed. The
// result does not depend on the number of processors.
func TestRun_edge(t *testing.T) {
	for algorithm, least := range map[string]int64{"sliding_log": 75, "fixed_window": 75, "sliding_window": 0} {
		p := unset(DynamoDB)
		p.Rate, p.Callers, p.Environments, p.Warmup, p.Measured = 100, 1, 10, time.Minute, 2*time.Minute
		r := parsed(t, fmt.Sprintf(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":60,"window":"1m","algorithm":%q,"per":["ip"]}}}]}`, algorithm))
		run := func(edge time.Duration, processors int) Result {
			t.Helper()
			p.Edge = edge
			plan, err := PlanRules(p, DefaultAnswers(), r, nil)
			if err != nil {
				t.Fatal(err)
			}
			result, err := Run(t.Context(), plan[0], processors, nil)
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		without, with := run(0, 1), run(10*time.Second, 1)
		if without.AtEdge != 0 || 100*with.AtEdge < least*with.Requests || 100*with.AtEdge > 82*with.Requests || least == 0 && 100*with.AtEdge > with.Requests { // its first wait ends in the first second that is measured
			t.Errorf("%s: got %d of %d requests refused at the edge, want %d to 82 %%", algorithm, with.AtEdge, with.Requests, least)
		}
		if with.WronglyRefused != 0 || with.Over != 0 || least > 0 && with.Dollars > without.Dollars/2 {
			t.Errorf("%s: got %d wrong refusals, %d above, and $%.2f for a million instead of $%.2f; want none, and less than half", algorithm, with.WronglyRefused, with.Over, with.Dollars, without.Dollars)
		}
		if again := run(10*time.Second, 3); !reflect.DeepEqual(again, with) {
			t.Errorf("%s: got %+v with 3 processors, want %+v", algorithm, again, with)
		}
		t.Logf("%s: %d requests, %d admitted, %d at the edge; a million cost $%.2f, without a distribution $%.2f", algorithm, with.Requests, with.Allowed, with.AtEdge, with.Dollars, without.Dollars)
	}
}
