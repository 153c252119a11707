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
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?ZmV0Y2h=?="}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"=?base64?/w==?="}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch", "fetch"}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch\x7f"}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"fetch\xff"}}, "all", "malformed_field", "malformed_field"},
		{http.Header{"Mcp-Method": {"tools/call"}}, "all", "", "unlisted_tool"},
		{http.Header{"Mcp-Method": {"Tools/call"}, "Mcp-Name": {"fetch"}}, "all", "", ""},
		{http.Header{"Mcp-Method": {"initialize"}}, "all", "", ""},
		{http.Header{"Mcp-Method": {""}}, "all", "", ""},
		{nil, "all", "", "unlisted_tool"},
		{http.Header{"X-Plan": {"gold"}}, "plan all", "", "unlisted_tool"}, // the client writes x-plan
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

// A call of a tool that no rule lists is refused, unless an enforced rule without headers charges the caller in each reading of the
// path that the rules of tools match.
func TestRules_Select_unlisted(t *testing.T) {
	const tool = `{"endpoint":"/mcp","headers":{"mcp-name":"search"},"limits":{"*":{"name":"search","requests":9,"window":"1m"}}}`
	with := func(endpoint, more, tier, limit string) string {
		return tool + `,{"endpoint":"` + endpoint + `",` + more + `"limits":{"` + tier +
			`":{"name":"other","requests":9,"window":"1m"` + limit + `}}}`
	}
	for _, c := range []struct {
		rules, path string
		refused     bool
	}{
		{tool, "/mcp", true},
		{with("*", "", "*", ""), "/mcp", false},
		{with("*", "", "global", ""), "/mcp", false},
		{with("/mcp", "", "*", `,"per":["user"],"mode":"mark"`), "/mcp", false},
		{with("*", "", "*", `,"per":["ip"],"only":"bad_credentials"`), "/mcp", true},
		{with("*", "", "*", `,"per":["ip"],"only":"unverified"`), "/mcp", true},
		{with("*", `"mode":"shadow",`, "*", ""), "/mcp", true},
		{with("*", "", "paid", ""), "/mcp", true},
		{with("*", "", "*", `,"per":["apikey"]`), "/mcp", true},
		{with("*", `"method":"GET",`, "*", ""), "/mcp", true},
		{with("*", `"headers":{"x-plan":"*"},`, "*", ""), "/mcp", true},
		{with("*", `"headers":{"mcp-name":"*"},`, "*", ""), "/mcp", false},
		{with("*", `"mode":"shadow","headers":{"mcp-name":"*"},`, "*", ""), "/mcp", true},
		{with("*", `"headers":{"mcp-name":"*"},`, "paid", ""), "/mcp", false}, // a rule lists the tool
		{strings.Replace(tool, `"/mcp"`, `"/mcp","mode":"shadow"`, 1), "/mcp", false},
		{with("/public/*", "", "*", ""), "//public/mcp", true},
		{with("/public/*", "", "*", ""), "/public/mcp", false},
		{with("/mcp", "", "*", ""), "//public/mcp", false},
		{with("*", `"except":["/mcp"],`, "*", ""), "/mcp/", true},
		{with("*", `"except":["/mcp/x"],`, "*", ""), "/mcp/", false},
		{strings.Replace(with("*", `"except":["/mcp"],`, "*", ""), `"/mcp"`, `"/mcp/*","except":["/mcp"]`, 1), "/mcp/", false},
	} {
		r := parse(t, document(c.rules))
		for name, header := range map[string]http.Header{"no fields": {"X-Plan": {"a"}},
			"fields": {"X-Plan": {"a"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"delete"}}} {
			if name == "no fields" && strings.Contains(c.rules, `"mcp-name":"*"`) {
				continue
			}
			s := r.Select(nil, rules.Request{Method: "POST", Path: rules.EncodedPath(c.path), Header: header, Caller: alice})
			tried := strings.HasPrefix(c.rules, `{"endpoint":"/mcp","mode":"shadow"`)
			if refused := s.Mistake != nil && s.Mistake.Code == "unlisted_tool"; refused != c.refused || s.Malformed || s.Tried != tried ||
				name == "fields" && !refused && !tried && s.Unmatched {
				t.Errorf("%s: %s with %s: refused %v, want %v", c.rules, c.path, name, refused, c.refused)
			}
		}
	}
}

// Without the fields, only the methods of MCP that call nothing pass where no rule without headers counts.
func TestRules_Select_silent(t *testing.T) {
	r := parse(t, document(`{"endpoint":"/mcp","headers":{"mcp-name":"search"},"limits":{"*":{"requests":9,"window":"1m"}}}`))
	for method, passes := range map[string]bool{"GET": true, "HEAD": true, "DELETE": true, "POST": false, "PUT": false, "OPTIONS": false} {
		if s := r.Select(nil, rules.Request{Method: method, Path: rules.EncodedPath("/mcp"), Caller: alice}); (s.Mistake == nil) != passes {
			t.Errorf("%s: got the mistake %+v, want a pass: %t", method, s.Mistake, passes)
		}
	}
}

// A call of an expensive tool in one run counts in all limits of the example.
func TestRules_Select_mcp(t *testing.T) {
	q := rules.Request{Method: "POST", Path: rules.EncodedPath("/mcp"), Caller: alice,
		Header: http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"render"}, "X-Run-Id": {"7"}}}
	var names []string
	for _, c := range load(t, "examples/mcp.json").Select(nil, q).Charges {
		names = append(names, c.Limit.Name)
	}
	slices.Sort(names)
	if got, want := strings.Join(names, " "), "calls expensive in-flight run tokens"; got != want {
		t.Errorf("got limits %s, want %s", got, want)
	}
}
