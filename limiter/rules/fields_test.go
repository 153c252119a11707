package rules_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// A rule with header fields applies if a request has each of them once, with a value that the rule names.
func TestRules_Select_headers(t *testing.T) {
	one := func(name, headers string) string {
		return `{"endpoint":"/mcp","method":"POST",` + headers + `"limits":{"*":{"name":"` + name + `","requests":9,"window":"1m"}}}`
	}
	tools := []string{one("search", `"headers":{"MCP-Method":"tools/call","mcp-name":["search_*","fetch"]},`),
		one("plan", `"headers":{"x-plan":"gold"},`)}
	with, without := parse(t, document(append(tools, one("all", ""))...)), parse(t, document(tools...))
	const encoded = "=?base64?c2VhcmNoX2E=?=" // search_a
	for _, c := range []struct {
		header        http.Header
		want, mistake string // with a rule without headers
		alone         string // the mistake without one
	}{
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"search_a"}}, "search all", "", ""},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch"}}, "search all", "", ""},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch2"}}, "all", "", "unlisted_tool"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {encoded}}, "search all", "", ""},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {strings.ToUpper(encoded[:9]) + encoded[9:]}}, "search all", "", ""},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {" search_a\t"}}, "search all", "", ""},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?c2VhcmNo?=="}}, "all", "", "unlisted_tool"}, // not encoded
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?!?="}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?/w==?="}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch", "fetch"}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch\x00"}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}}, "all", "", "unlisted_tool"},
		{http.Header{"Mcp-Method": {"Tools/call"}, "Mcp-Name": {"fetch"}}, "all", "", ""},
		{http.Header{"Mcp-Method": {"initialize"}}, "all", "", ""},
		{http.Header{"Mcp-Method": {""}}, "all", "", ""},
		{nil, "all", "", "unlisted_tool"},
		{http.Header{"X-Plan": {"gold"}}, "plan all", "", ""},
		{http.Header{"X-Plan": {"=?base64?Z29sZA==?="}, "Mcp-Method": {"ping"}}, "all", "", ""},
		{http.Header{"X-Plan": {"gold", "gold"}, "Mcp-Method": {"ping"}}, "all", "malformed_field", "malformed_field"},
	} {
		for r, mistake := range map[*rules.Rules]string{with: c.mistake, without: c.alone} {
			q := rules.Request{Method: "POST", Path: rules.EncodedPath("/mcp"), Header: c.header, Caller: alice}
			s, e := r.Select(nil, q), r.Explain(q)
			var names []string
			for _, charge := range s.Charges {
				names = append(names, charge.Limit.Name)
			}
			want := c.want
			if r == without {
				want = strings.TrimSpace(strings.TrimSuffix(want, "all"))
			}
			got := ""
			if s.Mistake != nil {
				got = s.Mistake.Code
			}
			if strings.Join(names, " ") != want || got != mistake || !s.Call || e.Mistake != s.Mistake || !slices.Equal(e.Charges, s.Charges) ||
				s.Unmatched != (want == "") {
				t.Errorf("%v: got %q and mistake %q, want %q and %q", c.header, names, got, want, mistake)
			}
			if r == with && len(e.Matches) == 3 && (e.Matches[0].Reason == "") != strings.Contains(want, "search") {
				t.Errorf("%v: explained: got %q", c.header, e.Matches[0].Reason)
			}
		}
	}
	rejected := rules.Request{Method: "POST", Path: rules.EncodedPath("/mcp"), Caller: caller.Caller{IP: address, Rejected: true}}
	if s := without.Select(nil, rejected); s.Mistake != nil {
		t.Error("bad credential: got a mistake, want only a 401")
	}
}

// A count by the name of a tool does not depend on how the field is written.
func TestRules_Select_headerCount(t *testing.T) {
	r := parse(t, document(rule("/mcp", "", `"*":{"name":"tool","requests":9,"window":"1m","per":["client","header:mcp-name"]}`)))
	subject := func(value string) string {
		s := r.Select(nil, rules.Request{Method: "POST", Path: rules.EncodedPath("/mcp"),
			Header: http.Header{"Mcp-Name": {value}}, Caller: alice})
		if !s.Call || s.Mistake != nil {
			t.Errorf("%s: got %+v, want a call without a mistake", value, s)
		}
		return s.Charges[0].Subject.String()
	}
	if plain, encoded := subject("fetch"), subject("=?base64?ZmV0Y2g=?="); plain != encoded {
		t.Errorf("got %s and %s, want one count", plain, encoded)
	}
}
