package simulate

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// A sample of a tenth admits the same percentage of the requests, and costs the same dollars a month, as all requests. It
// has a tenth of them.
func TestRun_sample(t *testing.T) {
	for name, sort := range map[string]string{
		"own":    `{"name":"own","requests":20,"window":"1s"}`,
		"bucket": `{"name":"own","requests":20,"window":"1s","algorithm":"token_bucket","burst":5}`,
		"shared": `[{"name":"shared","requests":2000,"window":"1s","algorithm":"fixed_window","lease":50,"per":["global"]},{"name":"own","requests":100,"window":"1s"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			run := func(sample int) (Result, float64) {
				p := unset(DynamoDB)
				p.Sample, p.Environments = sample, 40
				plan, err := PlanRules(p, Answers{}, parsed(t, `{"rules":[{"endpoint":"/a","limits":{"*":`+sort+`}}]}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				r := simulated(t, plan[0])
				return r, 100 * float64(r.Allowed) / float64(r.Requests)
			}
			all, admitted := run(0)
			part, sampled := run(10)
			exact := name != "shared" // of a shared limit, a lease saves fewer writes in a sample
			if math.Abs(sampled-admitted) > 3 || exact && math.Abs(part.Month/all.Month-1) > 0.1 || math.Abs(10*float64(part.Requests)/float64(all.Requests)-1) > 0.2 {
				t.Errorf("sample: got %d requests, %.1f %% admitted and %.0f dollars a month; want about a tenth of %d requests, %.1f %% and %.0f dollars",
					part.Requests, sampled, part.Month, all.Requests, admitted, all.Month)
			}
		})
	}
}

// Limits that callers share are divided, other limits are not. A limit that is too small for a sample is an error.
func TestPlanRules_sample(t *testing.T) {
	plan := func(document string) ([]Scenario, error) {
		p := unset(DynamoDB)
		p.Sample = 10
		return PlanRules(p, DefaultAnswers(), parsed(t, document), regexp.MustCompile("^/a, "))
	}
	got, err := plan(strings.Replace(twoLimits, "%", "5", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []uint32{1, 7} {
		if charges := got[0].charges(who); len(charges) != 2 || charges[0].Limit.Rate.Requests != 5 || charges[1].Limit.Rate.Requests != 30 {
			t.Errorf("caller %d: got %+v, want 5 requests of its own, and a tenth of the 300 shared ones", who, charges)
		}
	}
	for limit, want := range map[string]string{
		`"requests":9,"window":"1s"`:                                  `/a, *: limit "few": got 9 requests, want at least 10, because all callers share it; simulate all requests`,
		`"requests":100,"window":"1s","count":"cost","reserve":50`:    `/a, *: limit "few": got a cost of 50, want at most 10, its capacity in the sample`,
		`"requests":100,"window":"1s","count":"cost","reserve":10`:    "",
		`"requests":1000000,"window":"1s","algorithm":"fixed_window"`: "",
	} {
		_, err := plan(`{"rules":[{"endpoint":"/a","limits":{"*":{"name":"few","per":["global"],` + limit + `}}}]}`)
		if err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: got error %v, want %s", limit, err, want)
		}
	}
}
