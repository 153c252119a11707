package rules_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// Limits count by parameters of the path, by the method and by header fields.
func TestRules_Select_per(t *testing.T) {
	r := load(t, "testdata/good/per.json")
	address := netip.MustParsePrefix("203.0.113.7/32")
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		caller             caller.Caller
		want               string
	}{
		{"parameter", "GET", "/docs/7", nil, caller.Caller{}, "path:id=7 document, path:id=7|ip:203.0.113.7 mine, method:GET|ip:203.0.113.7 " +
			"method"},
		{"same parameter at another place", "HEAD", "/teams/a/docs/7/x", nil, caller.Caller{},
			"path:id=7 document, method:GET|ip:203.0.113.7 method"},
		{"below the parameter", "GET", "/teams/a/docs/7", nil, caller.Caller{}, "path:id=7 document, method:GET|ip:203.0.113.7 method"},
		{"escaped", "POST", "/docs/a%7Cb%3D", nil, caller.Caller{},
			"path:id=a%7Cb%3D document, path:id=a%7Cb%3D|ip:203.0.113.7 mine, method:POST|ip:203.0.113.7 method"},
		{"an invented method", "BREW", "/", nil, caller.Caller{}, "method:other|ip:203.0.113.7 method"},
		{"another invented method", "GETS", "/", nil, caller.Caller{}, "method:other|ip:203.0.113.7 method"},
		{"a method in lower case", "get", "/", nil, caller.Caller{}, "method:GET|ip:203.0.113.7 method"},
		{"header", "GET", "/", http.Header{"X-Tenant": {"a"}}, caller.Caller{User: "u", Claims: map[string][]string{"org": {"o"}}},
			"method:GET|ip:203.0.113.7 method, claim:org=o|header:x-tenant=a|user:u tenant"},
		{"no header", "GET", "/", nil, caller.Caller{User: "u", Claims: map[string][]string{"org": {"o"}}},
			"method:GET|ip:203.0.113.7 method, claim:org=o|header:x-tenant=|user:u tenant"},
		{"repeated header", "GET", "/", http.Header{"X-Tenant": {"a", "b"}}, caller.Caller{User: "u", Claims: map[string][]string{"org": {"o"}}},
			"method:GET|ip:203.0.113.7 method, claim:org=o|header:x-tenant=a,b|user:u tenant"},
		{"joined header", "GET", "/", http.Header{"X-Tenant": {"a,b"}}, caller.Caller{User: "u", Claims: map[string][]string{"org": {"o"}}},
			"method:GET|ip:203.0.113.7 method, claim:org=o|header:x-tenant=a,b|user:u tenant"},
		{"bad credential", "GET", "/docs/7", nil, caller.Caller{Rejected: true}, "method:GET|ip:203.0.113.7 method"},
	} {
		c.caller.IP = address
		q := rules.Request{Method: c.method, Path: rules.EncodedPath(c.path), Header: c.header, Caller: c.caller}
		var got []string
		s := r.Select(nil, q)
		for _, charge := range s.Charges {
			got = append(got, charge.Subject.String()+" "+charge.Limit.Name)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if e := r.Explain(q); !slices.Equal(e.Charges, s.Charges) || !explains(e) {
			t.Errorf("%s: explained: got %+v, want the charges %+v", c.name, e, s.Charges)
		}
	}
}

// A long value in a header field or a path makes no long subject, and different values have different
// subjects.
func TestRules_Select_perLong(t *testing.T) {
	r := load(t, "testdata/good/per.json")
	seen := map[string]bool{}
	for _, end := range []string{"a", "b"} {
		long := strings.Repeat("x", 100_000) + end
		q := rules.Request{Method: "GET", Path: rules.EncodedPath("/docs/" + long), Header: http.Header{"X-Tenant": {long}},
			Caller: caller.Caller{User: "u", Claims: map[string][]string{"org": {"o"}}}}
		for _, charge := range r.Select(nil, q).Charges {
			if s := charge.Subject.String(); len(s) > 144 {
				t.Errorf("%s: got a subject of %d bytes, want at most 144", charge.Limit.Name, len(s))
			} else if seen[s] && charge.Limit.Name != "method" {
				t.Errorf("%s: got the same subject %s for two values", charge.Limit.Name, s)
			} else {
				seen[s] = true
			}
		}
	}
}

// Two rules match a request and have the same parameter in different segments. The limit that they share
// counts both values.
func TestRules_Select_perSwapped(t *testing.T) {
	const limits = `"limits":{"*":{"name":"team","requests":10,"window":"1m","per":["path:team"]}}`
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/{team}/{user}",`+limits+`},{"endpoint":"/{user}/{team}",`+limits+`}]}`),
		rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, charge := range r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/a/b")}).Charges {
		got = append(got, charge.Subject.String())
	}
	if want := []string{"path:team=a", "path:team=b"}; !slices.Equal(got, want) {
		t.Errorf("got charges on %v, want %v", got, want)
	}
	if same := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/a/a")}).Charges; len(same) != 1 {
		t.Errorf("/a/a: got %d charges, want 1", len(same))
	}
}

// A bad credential at the usage endpoint is charged by its address like any other request, and so is a method other than
// GET and HEAD.
func TestRules_Select_usageRejected(t *testing.T) {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"address","requests":10,"window":"1m","per":["ip"]}}}],
		"usage":{"endpoint":"/_usage","limit":{"requests":10,"window":"1m"}}}`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := rules.Request{Method: "GET", Path: rules.EncodedPath("/_usage"), Caller: caller.Caller{User: "u",
		IP: netip.MustParsePrefix("192.0.2.1/32")}}
	if s := r.Select(nil, q); s.Usage == nil || len(s.Charges) != 1 || s.Charges[0].Limit.Name != "_usage" {
		t.Errorf("a user: got %+v, want the usage, and a charge on its limit", s)
	}
	q.Caller = caller.Caller{Rejected: true, IP: q.Caller.IP}
	if s := r.Select(nil, q); s.Usage != nil || len(s.Charges) != 1 || s.Charges[0].Limit.Name != "address" {
		t.Errorf("a bad credential: got %+v, want a charge on the limit of its address alone", s)
	}
	for method, want := range map[string]bool{"HEAD": true, "POST": false} {
		q.Method, q.Caller = method, caller.Caller{User: "u", IP: q.Caller.IP}
		if s := r.Select(nil, q); (s.Usage != nil) != want {
			t.Errorf("%s: got %+v, want the usage: %t", method, s, want)
		}
	}
}

// A path is the usage endpoint only if all its readings are. Otherwise a back end can serve it as another path, and it
// is charged like any other request.
func TestRules_Select_usageReadings(t *testing.T) {
	for _, c := range []struct {
		settings, endpoint string
		path               rules.Path
		usage              bool
	}{
		{"", "/usage", rules.EncodedPath("/v1/usage").Below([]string{"/v1"}), true},
		{"", "/usage", rules.EncodedPath("/v1/usage").Below([]string{"/v1", "/"}), false},
		{"", "/usage", rules.EncodedPath("/v1/usage").Below([]string{"/", "/v1"}), false},
		{`"ignore_suffix":true,`, "/usage", rules.EncodedPath("/usage"), true},
		{`"ignore_suffix":true,`, "/usage", rules.EncodedPath("/usage.json"), false},
		{`"ignore_suffix":true,`, "/usage.json", rules.EncodedPath("/usage.json"), false},
	} {
		r := parse(t, `{`+c.settings+`"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":9,"window":"1m"}}}],
			"usage":{"endpoint":"`+c.endpoint+`","limit":{"name":"usage","requests":9,"window":"1m"}}}`)
		s := r.Select(nil, rules.Request{Method: "GET", Path: c.path, Caller: caller.Caller{User: "u"}})
		all := slices.ContainsFunc(s.Charges, func(made limiter.Charge) bool { return made.Limit.Name == "all" })
		if got := r.IsUsage(c.path); got != c.usage || (s.Usage != nil) != c.usage || all == c.usage {
			t.Errorf("%s %+v: got IsUsage %t and %+v, want the usage: %t", c.endpoint, c.path, got, s, c.usage)
		}
	}
}

// Of returns the limits of a subject that has a parameter, a method or a header field.
func TestRules_Of_per(t *testing.T) {
	r := load(t, "testdata/good/per.json")
	v := rules.Request{Caller: caller.Caller{User: "u"}, Parameters: map[string]string{"id": "7"}}
	q := rules.Request{Method: "GET", Path: rules.EncodedPath("/docs/7"), Caller: v.Caller}
	for _, charge := range r.Select(nil, q).Charges[:2] {
		if got := r.Of(v, charge.Subject); len(got) != 1 || got[0].Charge.Limit != charge.Limit {
			t.Errorf("%s: got %+v, want the limit %s", charge.Subject, got, charge.Limit.Name)
		}
	}
}

// Own returns the limits of a caller's tier and identities: at most 100 limits, in at most 20 items.
func TestRules_Own(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{"free":{"requests":1,"window":"1m"},"paid":{"requests":2,"window":"1m"}}},
		{"endpoint":"/t","mode":"shadow","limits":{"*":{"requests":1,"window":"1m"}}},
		{"endpoint":"*","limits":{"global":[{"name":"all","requests":9,"window":"1m","per":["global"]},{"name":"ip","requests":3,"window":"1m",
			"per":["ip"]},
			{"name":"guests","requests":3,"window":"1m","per":["ip"],"only":"unverified"},{"name":"org","requests":4,"window":"1m",
				"per":["claim:org"]},{"name":"method","requests":5,"window":"1m","per":["user","method"]}]}}],
		"usage":{"endpoint":"/_usage","limit":{"requests":3,"window":"1m"}}}`)
	list, complete := r.Own(rules.Request{Caller: caller.Caller{User: "u", Tier: "paid", IP: netip.MustParsePrefix("203.0.113.7/32")}})
	var got []string
	for _, l := range list {
		got = append(got, l.Path+" "+l.Charge.Subject.String())
	}
	if want := []string{"rules[0].limits.paid user:u", "rules[2].limits.global[1] ip:203.0.113.7"}; !slices.Equal(got, want) || !complete ||
		r.UsageEndpoint() != "/_usage" || r.Len() != 3 {
		t.Errorf("got %v, complete %t, want %v", got, complete, want)
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = rule(fmt.Sprintf("/e%d", i), "", `"*":{"requests":3,"window":"1h"}`)
	}
	if list, complete := parse(t, document(many...)).Own(rules.Request{Caller: caller.Caller{User: "u"}}); len(list) != 20 || complete {
		t.Errorf("300 endpoints: got %d limits, complete %t, want 20 and more", len(list), complete)
	}
}
