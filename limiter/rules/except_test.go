package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// A rule leaves out a request only if every reading of its path is left out.
func TestRules_Select_except(t *testing.T) {
	r := parse(t, `{"ignore_case":true,"rules":[
		{"endpoint":"/foo/*","except":["/foo/bar","/foo/{id}/open/*"],"limits":{"*":{"name":"rest","requests":9,"window":"1m"}}},
		{"endpoint":"/foo/bar","method":"GET","limits":{"*":{"name":"bar","requests":9,"window":"1m"}}},
		{"endpoint":"*","except":["/","/foo/*"],"limits":{"*":{"name":"all","requests":9,"window":"1m","per":["ip"]}}}]}`)
	for _, c := range []struct{ path, want, left string }{
		{"/foo/bar", "bar", "rules[0] rules[2]"}, {"/FOO/Bar", "bar", "rules[0] rules[2]"}, {"/foo/baz", "rest", "rules[2]"},
		{"/foo/x/open/y", "", "rules[0] rules[2]"}, {"/foo/x/opened", "rest", "rules[2]"}, {"/", "", "rules[2]"}, {"/b", "all", ""},
		{"/foo//bar", "rest bar", "rules[2]"}, {"/foo%2Fbar", "rest bar all", ""}, {"/foo/bar/", "rest bar", "rules[2]"},
		{"/foo/bar%2Fx", "rest", "rules[2]"}, {"/foo/../foo/bar", "all", ""}, {"//", "all", ""},
	} {
		q := rules.Request{Method: "GET", Path: rules.EncodedPath(c.path), Caller: caller.Caller{User: "a", IP: address}}
		s, e := r.Select(nil, q), r.Explain(q)
		var names, left []string
		for _, charge := range s.Charges {
			names = append(names, charge.Limit.Name)
		}
		for _, m := range e.Matches {
			if strings.HasPrefix(m.Reason, "leaves out /") {
				left = append(left, m.Path)
			}
		}
		if strings.Join(names, " ") != c.want || strings.Join(left, " ") != c.left || !slices.Equal(s.Charges, e.Charges) ||
			s.Unmatched != (c.want == "") {
			t.Errorf("%s: got %q and %q left out, want %q and %q", c.path, names, left, c.want, c.left)
		}
	}
}

// A note reports an endpoint that a rule leaves out and no other rule counts.
func TestRules_Notes_except(t *testing.T) {
	except := func(rest string) string {
		return `{"rules":[{"endpoint":"/a/*","except":["/a/b"],"limits":{"*":` + limit + `}}` + rest + `]`
	}
	for document, want := range map[string]int{
		except("") + "}": 1,
		except(`,{"endpoint":"/a/{id}","limits":{"*":`+limit+`}}`) + "}":               0,
		except(`,{"endpoint":"/a/b","method":"GET","limits":{"*":`+limit+`}}`) + "}":   1,
		except(`,{"endpoint":"/a/b","mode":"shadow","limits":{"*":`+limit+`}}`) + "}":  1,
		except(`,{"endpoint":"*","except":["/a/{x}"],"limits":{"*":`+limit+`}}`) + "}": 1,
		except("") + `,"exempt":[{"endpoint":"/a/b"}]}`:                                0,
		except(`,{"endpoint":"*","except":["/a/x"],"limits":{"*":`+limit+`}}`) + "}":   0,
	} {
		if got := notes(t, document, "no other rule counts"); len(got) != want {
			t.Errorf("%s: got %q, want %d notes", document, got, want)
		}
	}
}

// A note reports a limit that can never refuse, because a stricter one counts all of its requests.
func TestRules_Notes_stricter(t *testing.T) {
	one := func(name, numbers, per string) string {
		return `{"name":"` + name + `",` + numbers + `,"per":[` + per + `]}`
	}
	second, day := `"requests":10,"window":"1s"`, `"requests":1000000,"window":"1d"`
	bucket := `"requests":60,"window":"1m","algorithm":"token_bucket","burst":5`
	pair := func(a, b string) string { return document(rule("/a", "", `"*":[`+a+`,`+b+`]`)) }
	having := func(longer, stricter string) string {
		return document(`{"headers":{`+longer+`},`+rule("/a", "", `"*":`+one("d", day, `"client"`))[1:],
			`{"headers":{`+stricter+`},`+rule("/a", "", `"*":`+one("s", second, `"client"`))[1:])
	}
	for document, want := range map[string]string{
		pair(one("s", second, `"client"`), one("d", day, `"client"`)):                                                     "rules[0].limits.*[1]",
		pair(one("s", second, `"client"`), one("d", `"requests":800000,"window":"1d"`, `"client"`)):                       "",
		pair(one("s", second, `"client"`), one("d", day, `"user"`)):                                                       "",
		pair(one("s", second, `"client"`), one("d", day, `"client","header:x-run"`)):                                      "rules[0].limits.*[1]",
		pair(one("s", second, `"client","header:x-run"`), one("d", day, `"client"`)):                                      "",
		pair(one("s", second, `"client","endpoint"`), one("d", day, `"client"`)):                                          "",
		pair(one("s", second+`,"mode":"mark"`, `"client"`), one("d", day, `"client"`)):                                    "",
		pair(one("s", second+`,"lease":2`, `"client"`), one("d", day, `"client"`)):                                        "",
		pair(one("b", bucket, `"client"`), one("d", `"requests":86410,"window":"1d"`, `"client"`)):                        "rules[0].limits.*[1]",
		pair(one("b", bucket, `"client"`), one("d", `"requests":86400,"window":"1d"`, `"client"`)):                        "",
		pair(one("s", second, `"client"`), one("d", `"requests":864039,"window":"1d"`, `"client"`)):                       "",
		pair(one("s", second, `"client"`), one("d", `"requests":864040,"window":"1d"`, `"client"`)):                       "rules[0].limits.*[1]",
		pair(one("b", bucket, `"client"`), one("w", `"requests":69,"window":"1m"`, `"client"`)):                           "",
		pair(one("b", bucket, `"client"`), one("w", `"requests":70,"window":"1m"`, `"client"`)):                           "rules[0].limits.*[1]",
		pair(one("b", bucket, `"client"`), one("c", strings.Replace(bucket, `:60`, `:120`, 1), `"client"`)):               "rules[0].limits.*[1]",
		pair(one("b", bucket, `"client"`), one("c", strings.Replace(bucket, `:5`, `:4`, 1), `"client"`)):                  "rules[0].limits.*[0]",
		pair(one("m", `"requests":50,"window":"1m"`, `"client"`), one("n", `"requests":60,"window":"1m"`, `"client"`)):    "rules[0].limits.*[1]",
		pair(one("m", `"requests":60,"window":"1m"`, `"client"`), one("n", `"requests":60,"window":"1m"`, `"client"`)):    "",
		pair(one("m", `"requests":19,"window":"1m"`, `"client"`), one("n", `"requests":20,"window":"1m"`, `"client"`)):    "",
		pair(one("s", second, `"global"`), one("d", day+`,"up_to":{"free":"1%","*":"100%"}`, `"global"`)):                 "",
		pair(one("s", second, `"global"`), one("d", day, `"ip"`)):                                                         "",
		document(rule("/a", "", `"*":`+one("d", day, `"client"`)), rule("*", "", `"*":`+one("s", second, `"client"`))):    "rules[0].limits.*",
		document(rule("/a", "", `"*":`+one("d", day, `"client"`)), rule("*", "GET", `"*":`+one("s", second, `"client"`))): "",
		document(rule("/a", "", `"*":`+one("d", day, `"client"`)), rule("*", "", `"paid":`+one("s", second, `"client"`))): "",
		document(rule("/a", "", `"*":`+one("d", day, `"client"`)), rule("*", "", `"*":`+one("s", second, `"client"`)+`,"paid":`+
			one("s", `"requests":100,"window":"1s"`, `"client"`))): "",
		document(rule("*", "", `"*":`+one("d", day, `"client"`)), rule("/a", "", `"*":`+one("s", second, `"client"`))): "",
		document(rule("/a/*", "", `"*":`+one("d", day, `"client"`)), strings.Replace(rule("*", "", `"*":`+one("s", second, `"client"`)), "{",
			`{"except":["/a/b"],`, 1)): "",
		document(rule("/a/*", "", `"*":`+one("d", day, `"client"`)), strings.Replace(rule("*", "", `"*":`+one("s", second, `"client"`)), "{",
			`{"except":["/b"],`, 1)): "rules[0].limits.*",
		having(`"a":"x","b":"y"`, `"a":["z","x"]`): "rules[0].limits.*",
		having(`"a":["xa","xb*"]`, `"a":"x*"`):     "rules[0].limits.*",
		having(`"a":["x","y"]`, `"a":"x"`):         "",
		having(`"b":"y"`, `"a":"*"`):               "",
		strings.Replace(pair(one("s", second, `"client"`), one("d", day, `"client"`)), "{",
			`{"overrides":[{"user":"a","limits":{"s":{"requests":99}}}],`,
			1): "",
	} {
		got := strings.Join(notes(t, document, "can never refuse"), "\n")
		if (got != "") != (want != "") || want != "" && !strings.HasPrefix(got, "1 "+want+": ") {
			t.Errorf("%s:\n got %s\nwant a note on %q", document, got, want)
		}
	}
}

// A note reports what an author probably means otherwise.
func TestRules_Notes_meant(t *testing.T) {
	all := `"*":` + limit
	with := func(member string) string {
		return strings.Replace(document(rule("/a", "", all)), "{", "{"+member+",", 1)
	}
	having := func(method, field string) string {
		return document(`{"headers":{"` + field + `":"a"},` + rule("/a", method, all)[1:])
	}
	for document, want := range map[string]string{
		document(rule("/a/(b|c)", "", all)):                       "rules[0].endpoint: an endpoint is no regular expression",
		document(rule("/a/[0-9]", "", all)):                       "rules[0].endpoint: an endpoint is no regular expression",
		document(rule("^/a", "", all)[:0] + rule("/a$", "", all)): "rules[0].endpoint: an endpoint is no regular expression",
		document(rule("/a.b/c+d,e", "", all)):                     "",
		document(rule("/prod/a", "", all)):                        "rules[0].endpoint: if prod is the stage of the API, leave it out",
		document(rule("/prod", "", all)):                          "",
		document(rule("/a", "", all+`,"anonymous":`+limit)):       "a caller without a credential has the default_tier free",
		strings.Replace(document(rule("/a", "", all+`,"anonymous":`+limit)), "{", `{"default_tier":"anonymous",`, 1): "",
		having("", "x-plan"):       "rules[0].headers: a client chooses X-Plan",
		having("", "mcp-name"):     "rules[0].headers: behind an authorizer, which sees no body, the MCP server must compare Mcp-Name",
		having("POST", "mcp-name"): "rules[0].method: a call by another method than POST counts only on other rules",
		with(`"exempt":[{"ip":"192.0.2.7/24"}]`): `exempt[0].ip: got "192.0.2.7/24", ` +
			`which is the network 192.0.2.0/24`,
		with(`"overrides":[{"ip":"2001:db8::1/64","limits":{"a":{"requests":9}}}]`):                  "overrides[0].ip: got",
		strings.Replace(document(rule("/a", "", all)), "{", `{"exempt":[{"ip":"192.0.2.0/24"}],`, 1): "",
	} {
		got := notes(t, document, "")
		if got := strings.Join(got, "\n"); want != "" && !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", document, got, want)
		}
	}
}
