package rules_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A limit that counts costs or bytes charges its reserve at admission, and not the cost of the rule. It never has a
// Spread.
func TestParse_count(t *testing.T) {
	r := storetest.Must(rules.Parse(storetest.Must(os.ReadFile("testdata/good/count.json")), rules.Options{LeaseAbove: 1}))
	for _, c := range []struct {
		method, path string
		want         map[string]limiter.Charge
	}{
		{"POST", "/v1/chat", map[string]limiter.Charge{
			"calls":  {Cost: 1, Limit: &limiter.Limit{}},
			"input":  {Cost: 8000, Limit: &limiter.Limit{Count: limiter.Count{Of: limiter.CountCost}}},
			"output": {Cost: 4000, Limit: &limiter.Limit{Count: limiter.Count{Of: limiter.CountCost}}},
		}},
		{"POST", "/v1/embed", map[string]limiter.Charge{"embed": {Cost: 500,
			Limit: &limiter.Limit{Count: limiter.Count{Of: limiter.CountCost}}}}},
		{"GET", "/files/a", map[string]limiter.Charge{"bytes": {Cost: 1_000_000,
			Limit: &limiter.Limit{Count: limiter.Count{Of: limiter.CountBytes}}}, "files": {Cost: 1, Limit: &limiter.Limit{}}}},
	} {
		charges := r.Charges(nil, c.method, rules.EncodedPath(c.path), caller.Caller{User: "alice"})
		for _, got := range charges {
			want := c.want[got.Limit.Name]
			if want.Limit == nil || got.Cost != want.Cost || got.Limit.Count != want.Limit.Count || got.Limit.Count.Settles() &&
				got.Limit.Spread != (limiter.Spread{}) {
				t.Errorf("%s: got a charge of %d on %s with %+v, want %+v", c.path, got.Cost, got.Limit.Name, got.Limit.Count, want)
			}
		}
		if len(charges) != len(c.want) {
			t.Errorf("%s: got %d charges, want %d", c.path, len(charges), len(c.want))
		}
	}
	login := r.Charges(nil, "POST", rules.EncodedPath("/login"), caller.Caller{IP: alice.IP})
	if failures := &login[0].Limit.Count.Failures; login[0].Cost != 1 || !failures.Has(401) || !failures.Has(503) || failures.Has(404) {
		t.Errorf("login: got a charge of %d with %v, want 1 with 401 and 5xx", login[0].Cost, failures)
	}
	notes := 0
	for _, n := range r.Notes() {
		if strings.Contains(n.Message, "whose back end is not Weir's") &&
			strings.Contains(n.Message, "can exceed the limit by what is in flight") {
			notes++
		}
	}
	if notes != 5 {
		t.Errorf("notes about foreign back ends: got %d, want one for each of 5 limits: %v", notes, r.Notes())
	}
}

// A request charges the largest reserve until its body is read. Metered has what its bodies cost, with the value of a path parameter.
func TestParse_from(t *testing.T) {
	r := storetest.Must(rules.Parse(storetest.Must(os.ReadFile("testdata/good/from.json")), rules.Options{}))
	for _, c := range []struct {
		method, path string
		want         []string // name, reserve, fields and value
	}{
		{"POST", "/v1/chat", []string{"tokens 32000 1 ", "weighted 4000 2 "}},
		{"GET", "/v1/chat", nil},
		{"POST", "/model/small%3A1/invoke", []string{"dollars 12800000 2 small:1"}},
		{"POST", "/v1/messages", []string{"dollars 12000000 2 ", "reported 100000 0 "}},
	} {
		var got []string
		s := r.Select(nil, rules.Request{Method: c.method, Path: rules.EncodedPath(c.path), Caller: caller.Caller{User: "alice"}})
		for i, m := range s.Metered {
			if m.Limit != s.Charges[i].Limit {
				t.Errorf("%s: got the limit %q, want %q", c.path, m.Limit.Name, s.Charges[i].Limit.Name)
			}
			got = append(got, fmt.Sprintf("%s %d %d %s", m.Limit.Name, s.Charges[i].Cost, len(m.Source.Fields), m.Value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.path, got, c.want)
		}
	}
}

func slots(name string, requests int, window string) string {
	return fmt.Sprintf(`{"name":%q,"requests":%d,"window":%q,"per":["client"],"count":"concurrent"}`, name, requests, window)
}

// A request takes one slot of a limit that counts requests in flight, and charges the item of the caller
// twice: when it begins and when it ends. An override changes the number and the longest hold.
func TestParse_concurrent(t *testing.T) {
	r := load(t, "testdata/good/concurrent.json")
	for user, want := range map[string]algo.Rate{
		"carol": {Algorithm: algo.Concurrent, Requests: 2, Window: 15 * time.Minute},
		"alice": {Algorithm: algo.Concurrent, Requests: 20, Window: 15 * time.Minute},
		"bob":   {Algorithm: algo.Concurrent, Requests: 5, Window: time.Hour},
	} {
		charges := r.Charges(nil, "POST", rules.EncodedPath("/v1/exports"), caller.Caller{User: user, Tier: "free"})
		got := charges[0]
		if got.Cost != 1 || got.Limit.Rate != want || got.Limit.Count != (limiter.Count{Of: limiter.CountConcurrent}) ||
			got.Limit.Spread != (limiter.Spread{}) {
			t.Errorf("%s: got a charge of %d on %+v, want 1 on %+v", user, got.Cost, got.Limit, want)
		}
		if len(charges) != 2 || charges[1].Cost != 5 {
			t.Errorf("%s: got the charges %+v, want a cost of 5 on the limit of the other rule", user, charges)
		}
	}
}

// Parse notes three properties of a concurrent limit: that it does not work behind an authorizer with a foreign back end, a window
// below the longest answer, and a window above the longest invocation.
func TestRules_Notes_concurrent(t *testing.T) {
	const rest, short, long = "nothing limits the requests in flight", "loses its slot", "if a function dies"
	for limits, want := range map[string][]string{
		slots("a", 10, "30s"): {rest}, slots("a", 10, "15m"): {rest}, slots("a", 10, "29s"): {rest, short}, slots("a", 10, "16m"): {rest, long},
	} {
		for _, of := range []string{rest, short, long} {
			if got := notes(t, document(rule("/a", "", `"*":`+limits)), of); len(got) > 1 || (len(got) == 1) != slices.Contains(want, of) {
				t.Errorf("%s: got notes %q, want one with %q: %t", limits, got, of, slices.Contains(want, of))
			}
		}
	}
}

// A limit can count requests in flight by a value that the client chooses. Only another limit of requests in flight
// bounds the sum over all values.
func TestRules_Notes_chosenSlots(t *testing.T) {
	const each = `{"name":"each","requests":5,"window":"1m","per":["client","header:x-tenant"],"count":"concurrent"}`
	for sum, want := range map[string]int{slots("sum", 10, "1m"): 0, `{"name":"sum","requests":10,"window":"1m","per":["client"]}`: 1} {
		if got := notes(t, document(rule("/a", "", `"*":[`+each+`,`+sum+`]`)), "a client chooses"); len(got) != want {
			t.Errorf("%s: got notes %q, want %d", sum, got, want)
		}
	}
}
