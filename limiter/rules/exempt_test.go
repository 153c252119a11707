package rules_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// An exemption selects requests by endpoint, verified identity or address. If several apply, the first
// in the document is reported. A bad credential is exempt only by its address.
func TestRules_Select_exempt(t *testing.T) {
	r := load(t, "testdata/good/exempt.json")
	ip := func(prefix string) caller.Caller { return caller.Caller{IP: netip.MustParsePrefix(prefix)} }
	for _, c := range []struct {
		name, method, path string
		caller             caller.Caller
		want               string
	}{
		{"endpoint", "GET", "/health", ip("198.51.100.1/32"), "exempt[0]"},
		{"endpoint, HEAD", "HEAD", "/health", ip("198.51.100.1/32"), "exempt[0]"},
		{"endpoint, other spelling", "GET", "/%68ealth", ip("198.51.100.1/32"), ""},
		{"below an endpoint", "POST", "/status/a/b", ip("198.51.100.1/32"), "exempt[1]"},
		{"not below", "GET", "/health/x", ip("198.51.100.1/32"), ""},
		{"other case", "GET", "/Health", ip("198.51.100.1/32"), ""},
		{"network", "GET", "/", ip("192.0.2.77/32"), "exempt[2]"},
		{"next network", "GET", "/", ip("192.0.3.0/32"), ""},
		{"IPv6 network", "GET", "/", ip("2001:db8:1::/64"), "exempt[3]"},
		{"address", "GET", "/", ip("203.0.113.9/32"), "exempt[4]"},
		{"user", "GET", "/", caller.Caller{User: "ops"}, "exempt[5]"},
		{"API key", "GET", "/", caller.Caller{APIKey: "monitoring"}, "exempt[6]"},
		{"user and API key", "GET", "/", caller.Caller{User: "ops", APIKey: "monitoring"}, "exempt[5]"},
		{"a key with the name of the user", "GET", "/", caller.Caller{APIKey: "ops"}, ""},
		{"user at an endpoint", "GET", "/status/", caller.Caller{User: "ops"}, "exempt[1]"},
		{"unknown address", "GET", "/", caller.Caller{}, ""},
		{"bad credential at an endpoint", "GET", "/health", caller.Caller{Rejected: true}, ""},
		{"bad credential from a network", "GET", "/", caller.Caller{Rejected: true, IP: netip.MustParsePrefix("192.0.2.1/32")}, "exempt[2]"},
		{"OPTIONS", "OPTIONS", "/health", ip("192.0.2.1/32"), "exempt[0]"},
	} {
		s := r.Select(nil, rules.Request{Method: c.method, Path: rules.EncodedPath(c.path), Caller: c.caller})
		got := ""
		if s.Exemption != nil {
			got = s.Exemption.Path
		}
		if charges := c.want == "" && !c.caller.Rejected; got != c.want || len(s.Charges) > 0 != charges {
			t.Errorf("%s: got exemption %q and %d charges, want %q and charges: %t", c.name, got, len(s.Charges), c.want, charges)
		}
		e := r.Explain(rules.Request{Method: c.method, Path: rules.EncodedPath(c.path), Caller: c.caller})
		if e.Exemption != s.Exemption || !slices.Equal(e.Charges, s.Charges) || c.want != "" && e.Matches[0].Reason != c.want+
			" exempts the request" {
			t.Errorf("%s: explained: got %+v, want %+v", c.name, e, s)
		}
	}
	if got := r.Exemptions(); !slices.Equal(got, []string{"health", "endpoint", "office", "ip", "user", "apikey"}) {
		t.Errorf("names: got %v, want each once", got)
	}
}

// Parse adds a note on an exemption of all addresses or of no caller, and on a rule whose requests are
// all exempt.
func TestParse_exempt_notes(t *testing.T) {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/health/{part}","limits":{"*":{"requests":1,"window":"1m"}}},{"endpoint":"/a",
		"limits":{"*":{"requests":1,"window":"1m"}}}],
		"exempt":[{"ip":"0.0.0.0/0"},{"ip":"2001:db8::1/128"},{"ip":"2001:db8:1::/64"},{"endpoint":"/health/*"}]}`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range r.Notes() {
		notes = append(notes, n.Path+": "+n.Message)
	}
	want := []string{
		"rules[0]: exempt[3] exempts every request of this rule",
		"exempt[0]: exempts every address of its family",
		"exempt[1]: IPv6 callers count by network: the exemption applies only if IPV6_BITS is at least 128",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
	}
}
