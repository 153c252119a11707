package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

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
