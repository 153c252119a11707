package rules_test

import (
	"fmt"
	"net/netip"
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
	for rule, want := range map[string]bool{
		everything("", byIP): true,
		everything("", `"global":[{`+limit+`,"per":["ip"]}]`):                                        true,
		everything(`,"edge":true`, `"global":{`+limit+`,"per":["ip"],"algorithm":"token_bucket"}`):   true,
		everything("", byIP) + `,{"endpoint":"/a","limits":{` + byIP + `}}`:                          true,
		everything(`,"edge":false`, byIP):                                                            false,
		everything("", byIP) + `,{"endpoint":"/a","edge":false,"limits":{` + byIP + `}}`:             false,
		everything(`,"method":"GET"`, byIP):                                                          false,
		everything(`,"cost":2`, byIP):                                                                false,
		everything(`,"mode":"shadow"`, byIP):                                                         false,
		`{"endpoint":"/x","limits":{` + byIP + `}}`:                                                  false,
		everything("", byIP) + `,{"endpoint":"/a","cost":2,"limits":{` + byIP + `}}`:                 false,
		everything("", `"global":{`+limit+`,"per":["ip"],"mode":"mark"}`):                            false,
		everything("", `"global":{`+limit+`,"per":["ip"],"only":"unverified"}`):                      false,
		everything("", `"global":{`+limit+`,"per":["ip"],"count":"failures"}`):                       false,
		everything("", `"global":{`+limit+`,"per":["ip","endpoint"]}`):                               false,
		everything("", `"global":{`+limit+`,"per":["apikey"]}`):                                      true,
		everything("", `"global":{`+limit+`,"per":["apikey","ip"]}`):                                 false,
		everything("", `"global":{`+limit+`,"per":["client"]}`):                                      false,
		everything("", `"*":{`+limit+`,"per":["apikey"]}`):                                           false,
		everything("", `"global":{`+limit+`,"per":["user"]}`):                                        false,
		everything("", `"global":{`+limit+`,"per":["global"]}`):                                      false,
		everything("", `"*":{`+limit+`,"per":["ip"]}`):                                               false,
		everything("", byIP) + `],"overrides":[{"ip":"192.0.2.0/24","limits":{"a":{"requests":70}}}`: false,
	} {
		document := `{"rules":[` + rule + `]}`
		r, err := rules.Parse([]byte(document), rules.Options{Version: 1})
		if err != nil {
			t.Errorf("%s: %v", document, err)
			continue
		}
		e := r.Edge()
		if got := len(e.Limits) == 1; got != want {
			t.Errorf("%s: got the limits %v, want one: %t", document, e.Limits, want)
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
		`"requests":60,"window":"1m"`:                            time.Second,
		`"requests":60,"window":"1m","algorithm":"token_bucket"`: time.Second,
		`"requests":100,"window":"1h"`:                           36 * time.Second,
		`"requests":60,"window":"1m","algorithm":"sliding_log"`:  time.Minute,
		`"requests":60,"window":"1m","algorithm":"fixed_window"`: time.Minute,
		`"requests":10,"window":"1m"`:                            time.Minute,    // stores instants
		`"requests":60,"period":"day"`:                           26 * time.Hour, // the longest day
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
	if e := r.Edge(); fmt.Sprint(e.Pass) != "[/health /usage]" || !e.Credentials || !e.Addresses {
		t.Errorf("got %+v, want /health, /usage and credentials to pass, and exempt addresses", e)
	}
	for text, want := range map[string]bool{"2001:db8::/64": true, "2001:db8:1::/64": false, "192.0.2.1/32": false} {
		if got := r.ExemptsPart(netip.MustParsePrefix(text)); got != want {
			t.Errorf("exemption within %s: got %t, want %t", text, got, want)
		}
	}
}
