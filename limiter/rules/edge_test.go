package rules_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Only limits that charge every request of an address or an API key with 1 may be enforced in front of the API.
func TestRules_Edge(t *testing.T) {
	const limit = `"name":"a","requests":60,"window":"1m"`
	everything := func(fields, limits string) string { return `{"endpoint":"*"` + fields + `,"limits":{` + limits + `}}` }
	byIP := `"global":{` + limit + `,"per":["ip"]}`
	const here = "" // the edge can refuse
	for rule, reason := range map[string]string{
		everything("", byIP): here,
		everything("", `"global":[{`+limit+`,"per":["ip"]}]`):                                          here,
		everything(`,"edge":true`, `"global":{`+limit+`,"per":["ip"],"algorithm":"token_bucket"}`):     here,
		everything("", byIP) + `,{"endpoint":"/a","limits":{` + byIP + `}}`:                            here,
		everything(`,"edge":false`, byIP):                                                              `the rule has "edge": false`,
		everything("", byIP) + `,{"endpoint":"/a","edge":false,"limits":{` + byIP + `}}`:               `another rule with this limit has "edge": false`,
		everything(`,"method":"GET"`, byIP):                                                            "the rule is for one method",
		everything(`,"cost":2`, byIP):                                                                  "a request can cost more than 1",
		everything(`,"mode":"shadow"`, byIP):                                                           "the rule is in shadow mode",
		`{"endpoint":"/x","limits":{` + byIP + `}}`:                                                    "the rule is not for all endpoints (*)",
		everything("", byIP) + `,{"endpoint":"/a","cost":2,"limits":{` + byIP + `}}`:                   "a request can cost more than 1",
		everything("", `"global":{`+limit+`,"per":["ip"],"mode":"mark"}`):                              "the limit is in mode mark",
		everything("", `"global":{`+limit+`,"per":["ip"],"only":"unverified"}`):                        `the limit has "only"`,
		everything("", `"global":{`+limit+`,"per":["ip"],"count":"failures"}`):                         `the limit has "count"`,
		everything("", `"global":{`+limit+`,"per":["ip","endpoint"]}`):                                 `the limit does not count "per" one of ip and apikey`,
		everything("", `"global":{`+limit+`,"per":["apikey"]}`):                                        here,
		everything("", `"global":{`+limit+`,"per":["apikey","ip"]}`):                                   `the limit does not count "per" one of ip and apikey`,
		everything("", `"global":{`+limit+`,"per":["client"]}`):                                        `the limit does not count "per" one of ip and apikey`,
		everything("", `"*":{`+limit+`,"per":["apikey"]}`):                                             `the limit is not under "global"`,
		everything("", `"global":{`+limit+`,"per":["user"]}`):                                          `the limit does not count "per" one of ip and apikey`,
		everything("", `"global":{`+limit+`,"per":["global"]}`):                                        `the limit does not count "per" one of ip and apikey`,
		everything("", `"*":{`+limit+`,"per":["ip"]}`):                                                 `the limit is not under "global"`,
		everything("", byIP) + `],"overrides":[{"ip":"192.0.2.0/24","limits":{"a":{"requests":70}}}`:   "an override changes the limit of addresses",
		everything("", `"global":{`+limit+`,"per":["apikey"]}`) + `],"exempt":[{"endpoint":"/health"}`: here,
		everything("", `"global":{`+limit+`,"per":["apikey"]}`) + `],"exempt":[{"user":"a"}`:           "the rules exempt users, API keys or addresses, which a count of API keys cannot see",
		everything("", `"global":{`+limit+`,"per":["apikey"]}`) + `],"exempt":[{"apikey":"a"}`:         "the rules exempt users, API keys or addresses, which a count of API keys cannot see",
		everything("", `"global":{`+limit+`,"per":["apikey"]}`) + `],"exempt":[{"ip":"192.0.2.1"}`:     "the rules exempt users, API keys or addresses, which a count of API keys cannot see",
		everything("", byIP) + `],"exempt":[{"user":"a"}`:                                              here,
		everything("", byIP) + `],"ignore_suffix":true,"exempt":[{"endpoint":"/health"}`:               "the rules ignore suffixes, and exempt endpoints or have a usage endpoint",
	} {
		document := `{"rules":[` + rule + `]}`
		r, err := rules.Parse([]byte(document), rules.Options{Version: 1})
		if err != nil {
			t.Errorf("%s: %v", document, err)
			continue
		}
		e, reasons, want := r.Edge(), r.EdgeReasons(), reason == here
		if got := len(e.Limits) == 1; got != want {
			t.Errorf("%s: got the limits %v, want one: %t", document, e.Limits, want)
		}
		if want && len(reasons) > 0 || !want && (len(reasons) == 0 || reasons[0].Reason != reason || !strings.HasPrefix(reasons[0].Paths[0], "rules[0].limits.")) {
			t.Errorf("%s: got the reasons %+v, want %q first", document, reasons, reason)
		}
		for _, charge := range r.Charges(nil, "GET", rules.EncodedPath("/x"), caller.Caller{IP: netip.MustParsePrefix("198.51.100.1/32"), User: "u", APIKey: "k"}) {
			if charge.Limit.Edge != want {
				t.Errorf("%s: limit %s: got Edge %t, want %t", document, charge.Limit.Name, charge.Limit.Edge, want)
			}
		}
	}
}

// The wait of a caller that never stops.
func TestRules_Edge_wait(t *testing.T) {
	for limit, want := range map[string]time.Duration{
		`"requests":60,"window":"1m"`:                              time.Second,
		`"requests":60,"window":"1m","algorithm":"token_bucket"`:   time.Second,
		`"requests":100,"window":"1h"`:                             36 * time.Second,
		`"requests":60,"window":"1m","algorithm":"sliding_log"`:    time.Minute,
		`"requests":60,"window":"1m","algorithm":"fixed_window"`:   time.Minute,
		`"requests":10,"window":"1m"`:                              time.Minute, // stores instants
		`"requests":60,"period":"day"`:                             24 * time.Hour,
		`"requests":60,"period":"day","time_zone":"Europe/Berlin"`: 25 * time.Hour, // the longest day
	} {
		r := storetest.Must(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"a","per":["ip"],`+limit+`}}}]}`), rules.Options{Version: 1}))
		if e := r.Edge(); len(e.Limits) != 1 || e.Limits[0].Wait != want {
			t.Errorf("%s: got %v, want a wait of %s", limit, e.Limits, want)
		}
	}
}

// The endpoints and the callers that no listed limit counts.
func TestRules_Edge_exempt(t *testing.T) {
	r := storetest.Must(rules.Parse([]byte(`{"rules":[],"usage":{"endpoint":"/usage","limit":{"name":"usage","requests":9,"window":"1m"}},"exempt":[{"endpoint":"/health"},{"user":"a"},{"ip":"2001:db8::/96"}]}`), rules.Options{Version: 1}))
	if e := r.Edge(); fmt.Sprint(e.Pass) != "[/health /usage]" || !e.Credentials {
		t.Errorf("got %+v, want /health, /usage and credentials to pass", e)
	}
	for text, want := range map[string]bool{"2001:db8::/64": true, "2001:db8:1::/64": false, "192.0.2.1/32": false} {
		if got := r.ExemptsPart(netip.MustParsePrefix(text)); got != want {
			t.Errorf("exemption within %s: got %t, want %t", text, got, want)
		}
	}
}
