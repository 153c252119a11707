package simulate

import (
	"math"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

func parsed(t *testing.T, document string) *rules.Rules {
	t.Helper()
	r, err := rules.Parse([]byte(document), rules.Options{Items: dynamostore.Items{}, LeaseAbove: rules.LeaseAboveDynamoDB})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unset returns parameters whose times PlanRules chooses.
func unset(store Store) Parameters {
	p := small(store)
	p.Warmup, p.Measured = 0, 0
	return p
}

// The requests of a scenario charge what the rules select for a request that is written here by hand.
func TestPlanRules_charges(t *testing.T) {
	sample, err := os.ReadFile("../../functions/rules.json")
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParsePrefix("2001:db8:0:7::/64")
	user := func(tier string) caller.Caller { return caller.Caller{User: "7", IP: ip, Tier: tier} }
	type request struct {
		method, path string
		caller       caller.Caller
		charges      int
	}
	for document, want := range map[string]map[string]request{
		string(sample): {
			"GET /api/v1/search, free":       {"GET", "/api/v1/search", user("free"), 1},
			"GET /api/v1/search, paid":       {"GET", "/api/v1/search", user("paid"), 1},
			"GET /api/v1/search, enterprise": {"GET", "/api/v1/search", user("enterprise"), 1},
			"POST /api/v1/data, free":        {"POST", "/api/v1/data", user("free"), 2},
			"POST /api/v1/data":              {"POST", "/api/v1/data", user("paid"), 1},
			"GET /api/v1/items/{id}, *":      {"GET", "/api/v1/items/7", user("free"), 1},
			"POST /api/v1/login, *":          {"POST", "/api/v1/login", user("free"), 1},
			"*, no credential":               {"GET", "/7", caller.Caller{IP: ip, Tier: "free"}, 1},
			"*, bad credential":              {},
		},
		`{"rules":[{"endpoint":"/a/{id}/*","cost":3,"limits":{
			"paid":[{"name":"id","requests":9,"window":"1m","per":["path:id"]},{"name":"org","requests":8,"window":"1m","per":["claim:org"],"mode":"mark"},{"name":"tokens","requests":100,"window":"1m","count":"cost","reserve":5}],
			"*":{"name":"key","requests":7,"window":"1h","algorithm":"fixed_window","per":["apikey"]}}}]}`: {
			"/a/{id}/*, *, API key": {"GET", "/a/7/7", caller.Caller{APIKey: "7", IP: ip, Tier: "free"}, 1},
			"/a/{id}/*, paid":       {"GET", "/a/7/7", caller.Caller{User: "7", IP: ip, Tier: "paid", Claims: map[string]string{"org": "7"}}, 3},
		},
	} {
		r := parsed(t, document)
		p := unset(DynamoDB)
		p.Environments = 10
		plan, err := PlanRules(p, DefaultAnswers(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range plan {
			q, ok := want[s.Name]
			delete(want, s.Name)
			if !ok {
				t.Errorf("got an unexpected scenario %q", s.Name)
			}
			charges := r.Charges(nil, q.method, rules.EncodedPath(q.path), q.caller)
			if got := s.charges(7); !slices.Equal(got, charges) || len(got) != q.charges {
				t.Errorf("%s: got %d charges %+v, want %d charges %+v", s.Name, len(got), got, q.charges, charges)
			}
			if s.Warmup != time.Minute || s.Measured != time.Minute || s.unfilled() != strings.Contains(s.Name, "API key") {
				t.Errorf("%s: got %s after %s and unfilled %t, want a minute each, and a window of an hour unfilled", s.Name, s.Measured, s.Warmup, s.unfilled())
			}
		}
		delete(want, "*, bad credential")
		if len(want) > 0 {
			t.Errorf("got no scenarios for %v", want)
		}
	}
}

// twoLimits counts the callers each and all together, so a request writes two items at the same time.
const twoLimits = `{"rules":[{"endpoint":"/a","limits":{"*":{"name":"own","requests":%,"window":"1s","algorithm":"fixed_window"},"global":{"name":"shared","requests":300,"window":"1s","algorithm":"fixed_window"}}}]}`

// A request that charges two subjects makes both calls at the same time. Dollars a month, by hand: 1,000 requests a
// second are 2,592 million in 30 days. Each costs 0.20 for the invocation, 0.033325 for 5 ms of 0.5 GB and 1.25
// for two writes, all per million.
func TestRunRules_month(t *testing.T) {
	const strict = `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":100000,"window":"1s","algorithm":"fixed_window","lease":1},"global":{"name":"shared","requests":100000,"window":"1s","algorithm":"fixed_window","lease":1}}}]}`
	p := unset(DynamoDB)
	p.Rate, p.Median, p.P99 = 1000, 3500*time.Microsecond, 3500*time.Microsecond
	plan, err := PlanRules(p, Answers{}, parsed(t, strict), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := simulated(t, plan[0])
	if r.Units != 2*r.Requests || r.Allowed != r.Requests || p.Median-r.P50 > time.Microsecond || r.P99 > p.Median {
		t.Errorf("got %d units, %d of %d admitted, and %s and %s for a decision; want two writes each, all admitted, and one round trip", r.Units, r.Allowed, r.Requests, r.P50, r.P99)
	}
	if want := (0.20 + 0.033325 + 1.25) * 2592; math.Abs(r.Month-want) > 0.01 {
		t.Errorf("dollars a month: got %.2f, want %.2f", r.Month, want)
	}
}

// The judge of two limits knows what both admit together, and the decisions differ little from that.
func TestRunRules_judge(t *testing.T) {
	for _, store := range []Store{DynamoDB, ElastiCache} {
		for own, admitted := range map[string]int64{"1000": 300, "1": 300, "2": 300} {
			p := unset(store)
			p.Rate, p.Warmup, p.Measured = 1000, time.Second, 2*time.Second
			plan, err := PlanRules(p, Answers{}, parsed(t, strings.Replace(twoLimits, "%", own, 1)), regexp.MustCompile("^/a, "))
			if err != nil {
				t.Fatal(err)
			}
			r := simulated(t, plan[0])
			if due := r.Oracle; due > 2*admitted || due < 2*admitted*9/10 && own != "1" || r.Over != 0 || r.WronglyRefused != due-r.Allowed || r.WronglyRefused*20 > due {
				t.Errorf("%s, %s for each: got %d due, %d allowed, %d over and %d wrongly refused; want at most %d, none over, and few wrong: those due less those allowed", store, own, due, r.Allowed, r.Over, r.WronglyRefused, 2*admitted)
			}
		}
	}
}

func TestPlanRules_mistakes(t *testing.T) {
	const queue = `{"rules":[{"endpoint":"/a","limits":{"*":{"name":"queue","requests":5,"window":"1s","algorithm":"leaky_bucket"}}},{"endpoint":"/b","limits":{"*":{"requests":5,"window":"1s"}}}]}`
	for _, c := range []struct{ document, only, want string }{
		{`{"rules":[]}`, "", "rules: got none that charges a limit, want at least one"},
		{queue, "/c", `names: got "/c", want part of a name such as "/a, *"`},
		{queue, "", `/a, *: limit "queue": a leaky_bucket cannot be simulated, because the simulation has no queues; leave the rule out with --only`},
		{queue, "/b", ""},
	} {
		_, err := PlanRules(unset(DynamoDB), Answers{}, parsed(t, c.document), regexp.MustCompile(c.only))
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("only %q: got error %v, want %s", c.only, err, c.want)
		}
	}
}
