package rules_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// read returns the readings of a path under a document with more fields. It returns nil for a malformed path.
func read(tb testing.TB, fields string, p rules.Path) []string {
	tb.Helper()
	r, err := rules.Parse([]byte(`{`+fields+`"rules":[]}`), rules.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	e, malformed := r.Explain(rules.Request{Method: "GET", Path: p}), r.Select(nil, rules.Request{Method: "GET", Path: p}).Malformed
	if e.Malformed != malformed || malformed != (e.Readings == nil) {
		tb.Errorf("%s: got readings %q and malformed %t, want one of both", p, e.Readings, malformed)
	}
	return e.Readings
}

const everySetting = `"ignore_case":true,"ignore_suffix":true,"ignore_parameters":true,"backslash_is_slash":true,`

// Routers can read a path in different ways, which are the readings of the path. A malformed path has none.
func TestPath_readings(t *testing.T) {
	for _, c := range []struct {
		fields, path string
		want         []string
	}{
		{"", "/", []string{"/"}}, {"", "", []string{"/"}}, {"", "/a", []string{"/a"}}, {"", "a", nil}, {"", "*", nil},
		{"", "x:http://h/login", nil}, {"", "/a.b/.c/...", []string{"/a.b/.c/..."}},
		{"", "/A;b=c\\d+e:f@g", []string{"/A;b=c\\d+e:f@g"}},
		{"", "//", []string{"//", "/"}}, {"", "//h/a", []string{"//h/a", "/h/a", "/a"}},
		{"", "///u:p@h/a/b", []string{"///u:p@h/a/b", "/u:p@h/a/b", "/a/b"}}, {"", "//h?b", []string{"//h?b", "/h?b", "//h", "/h", "/"}},
		{"", "/%2fh/a\u00e9", []string{"/%2fh/a\u00e9", "/%2Fh/a\u00e9", "//h/a\u00e9", "/h/a\u00e9",
			"//h/a%C3%A9", "/h/a%C3%A9", "/a%C3%A9", "/a\u00e9"}},
		{"", `/\h/a`, []string{`/\h/a`}}, {"", "/a/", []string{"/a/", "/a"}}, {"", "//a", []string{"//a", "/a", "/"}},
		{"", "/a//b/", []string{"/a//b/", "/a//b", "/a/b"}},
		{"", "/%61", []string{"/%61", "/a"}}, {"", "/%2561", []string{"/%2561", "/%61"}}, {"", "/%ff", nil}, {"", "/\xff", nil},
		{"", "/a%00", nil}, {"", "/a%0a", nil}, {"", "/a%7F", nil}, {"", "/a%c2%85", nil}, {"", "/%250a", []string{"/%250a", "/%0a"}},
		{"", "/100%25", []string{"/100%25", "/100%"}},
		{"", "/a%2fb", []string{"/a%2fb", "/a%2Fb", "/a/b"}}, {"", "/a%2Fb", []string{"/a%2Fb", "/a/b"}},
		{"", "/%61%2F/", []string{"/%61%2F/", "/%61%2F", "/a%2F/", "/a%2F", "/a//", "/a/", "/a"}},
		{"", "/a b", []string{"/a b"}}, {"", "/a ", []string{"/a ", "/a"}}, {"", "/a%20", []string{"/a%20", "/a "}},
		{"", "/a#b", []string{"/a#b", "/a"}}, {"", "/a?b", []string{"/a?b", "/a"}}, {"", "/a ?b ", []string{"/a ?b ", "/a ?b", "/a"}},
		{"", "/a%3Fb%23c", []string{"/a%3Fb%23c", "/a?b#c", "/a"}}, {"", "/a%23/%3f", []string{"/a%23/%3f", "/a#/?", "/a"}},
		{"", "/ab\\c\u00a0", []string{"/ab\\c\u00a0", "/ab/c"}},
		{"", "/a\tb", nil}, {"", "/a\nb", nil}, {"", "/a\rb", nil}, {"", "/a\x7f", nil}, {"", "/" + strings.Repeat("a", 8<<10), nil},
		{"", "/" + strings.Repeat("a", 8<<10-1), []string{"/" + strings.Repeat("a", 8<<10-1)}}, {"", "/a\u00a0", []string{"/a\u00a0", "/a"}},
		{"", "/a\ufeff", []string{"/a\ufeff", "/a"}},

		{"", "/%", nil}, {"", "/%6", nil}, {"", "/%zz", nil}, {"", "/%u0061", nil}, {"", "/%%61", nil}, {"", "/%2%35", nil},
		{"", "/%\x10\x11a", nil},
		{"", "/.", nil}, {"", "/..", nil}, {"", "/a/./b", nil}, {"", "/a/../b", nil}, {"", "/../", nil}, {"", "/%2e", nil},
		{"", "/a/.%2E/b", nil}, {"", "/a%2F..", nil}, {"", "/a%2f%2e%2fb", nil}, {"", "/.. ", nil}, {"", "/a/..?x", nil},
		{"", "/%252e%252e", []string{"/%252e%252e", "/%2e%2e"}}, {"", "/..;/a", []string{"/..;/a"}}, {"", "/a\\..\\b", []string{"/a\\..\\b"}},

		{`"ignore_case":true,`, "/Ab/ÄÖ", []string{"/ab/ÄÖ", "/ab/äö"}}, {`"ignore_case":true,`, "/\u017fı\u212aİ",
			[]string{"/\u017fı\u212aİ", "/siki"}}, {`"ignore_case":true,`, "/ab", []string{"/ab"}}, {`"ignore_case":true,`, "/%41",
			[]string{"/%41", "/a"}}, {`"ignore_case":true,`, "/%C3%84", []string{"/%c3%84", "/Ä", "/ä"}},
		{`"ignore_case":false,`, "/Ab", []string{"/Ab"}},
		{`"ignore_suffix":true,`, "/a.json", []string{"/a.json", "/a"}}, {`"ignore_suffix":true,`, "/a.tar.gz/",
			[]string{"/a.tar.gz/", "/a.tar.gz", "/a.tar"}}, {`"ignore_suffix":true,`, "/a.b/c", []string{"/a.b/c"}},
		{`"ignore_suffix":true,`, "/.a", []string{"/.a"}}, {`"ignore_suffix":true,`, "/a/...b", []string{"/a/...b"}},
		{`"ignore_suffix":true,`, "/a%2ejson", []string{"/a%2ejson", "/a.json", "/a"}},
		{`"ignore_parameters":true,`, "/a;v=1/b;;c", []string{"/a/b", "/a"}}, {`"ignore_parameters":true,`, "/a/..;x/b", nil},
		{`"ignore_parameters":true,`, "/a/;x/b", []string{"/a//b", "/a/b", "/a/", "/a"}}, {`"ignore_parameters":true,`, "/a%3Bb",
			[]string{"/a%3Bb", "/a;b", "/a"}},
		{`"ignore_parameters":true,`, "/%2Fa;x%2Fb/c%3Bd", []string{"/%2Fa/c%3Bd", "/%2Fa/c;d", "//a/c;d", "/a/c;d", "/%2Fa/c", "//a/c", "/a/c",
			"//a/b/c", "/a/b/c", "/%2Fa", "//a", "/a"}},
		{`"ignore_case":true,"ignore_suffix":true,`, "/\u017f.JS", []string{"/\u017f.js", "/\u017f", "/s.js", "/s"}},
		{`"backslash_is_slash":true,`, "/%2Fa%5Cb", []string{"/%2Fa%5Cb", "/%2Fa\\b", "//a\\b", "/a\\b", "/%2Fa/b", "//a/b", "/a/b"}},
		{`"backslash_is_slash":true,`, "/a\\b", []string{"/a/b", "/a%5Cb", "/a\\b"}}, {`"backslash_is_slash":true,`, `/\h/a`,
			[]string{"//h/a", "/h/a", "/%5Ch/a", `/\h/a`, "/a"}}, {`"backslash_is_slash":true,`, `//u\p@h/a`,
			[]string{"//u/p@h/a", "/u/p@h/a", "//u%5Cp@h/a", "/u%5Cp@h/a", `//u\p@h/a`, `/u\p@h/a`, "/p@h/a", "/a"}},
		{`"backslash_is_slash":true,`, "/a\\..\\b", nil}, {`"backslash_is_slash":true,`,
			"/a%5Cb", []string{"/a%5Cb", "/a\\b", "/a/b"}}, {`"backslash_is_slash":true,`, "/a%5c..", nil},
		{everySetting, "/Ab.X;y\\c.D", []string{"/ab.x/c.d", "/ab.x/c", "/ab.x", "/ab"}},
	} {
		if got := read(t, c.fields, rules.EncodedPath(c.path)); !slices.Equal(got, c.want) {
			t.Errorf("%q with %s: got %q, want %q", c.path, c.fields, got, c.want)
		}
	}
}

// A host may have decoded the path. Its back end may decode it again, also with a % that encodes nothing.
func TestDecodedPath(t *testing.T) {
	for path, want := range map[string][]string{
		"/a": {"/a"}, "/%61": {"/%61", "/a"}, "/100%": {"/100%"}, "/%zz%61": {"/%zz%61", "/%zza"}, "/%%61": {"/%%61", "/%a"},
		"/%2f": {"/%2f", "/%2F", "//", "/"}, "/%2e": nil, "/a\n": nil, "/%0a": nil, "/a%2F..": nil, "/%..": {"/%.."}, "/..": nil,
	} {
		if got := read(t, "", rules.DecodedPath(path)); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

// A stage or base path is removed from each reading that begins with its segments.
func TestPath_Below(t *testing.T) {
	for path, want := range map[string][]string{
		"/v1/a": {"/a"}, "/v1": {"/"}, "/v1/": {"/"}, "/v1/v1/a": {"/v1/a"}, "/v10/a": {"/v10/a"}, "/v1a": {"/v1a"}, "/a": {"/a"},
		"/V1/a": {"/V1/a"}, "/a/v1/b": {"/a/v1/b"}, "/": {"/"},
		"//v1/a": {"//v1/a", "/a"}, "/%761/a": {"/%761/a", "/a"}, "/v1//a": {"//a", "/a"}, "/v1%2Fa": {"/v1%2Fa", "/a"},
	} {
		if got := read(t, "", rules.EncodedPath(path).Below([]string{"/v1"})); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	if got := read(t, `"ignore_case":true,`, rules.EncodedPath("/V1/A").Below([]string{"/V1"})); !slices.Equal(got, []string{"/a"}) {
		t.Errorf("with ignore_case: got %q, want /a", got)
	}
	if got, want := read(t, `"ignore_case":true,`, rules.EncodedPath("/v1/a").Below([]string{"/V1"})),
		[]string{"/a", "/v1/a"}; !slices.Equal(got, want) {
		t.Errorf("with ignore_case, a plain path below /V1: got %q, want %q", got, want)
	}
	for _, prefixes := range [][]string{{"/v1"}, {"/v1", "/"}} { // API Gateway does not remove the prefix, but a back end can
		if got, want := read(t, `"ignore_case":true,`, rules.EncodedPath("/V1/A").Below(prefixes)), []string{"/a", "/v1/a"}; !slices.Equal(got,
			want) {
			t.Errorf("with ignore_case, below %q: got %q, want %q", prefixes, got, want)
		}
	}
}

// With several prefixes, the path has one reading without each prefix with which it begins, because the host can have
// added this prefix. The prefix / stands for a host that adds nothing.
func TestPath_Below_several(t *testing.T) {
	prefixes := []string{"/v1/e", "/v1/eu", "/orders/v2", "/v1", "/v0", "/"}
	for path, want := range map[string][]string{
		"/v1/a": {"/a"}, "/v1/eu/a": {"/a", "/eu/a"}, "/v1/eu": {"/", "/eu"}, "/v1/europe/a": {"/europe/a"}, "/v1/e/u": {"/u", "/e/u"},
		"/orders/v2/a": {"/a"}, "/orders/a": {"/orders/a"}, "/orders/v22/a": {"/orders/v22/a"},
		"/v1/orders/v2/a": {"/orders/v2/a"}, "/eu/a": {"/eu/a"}, "/v1//eu/a": {"//eu/a", "/a", "/eu/a"}, "/v1/e%75/a": {"/e%75/a", "/a", "/eu/a"},
		"/a": {"/a"}, "/": {"/"}, "//": {"//", "/"},
	} {
		if got := read(t, "", rules.EncodedPath(path).Below(prefixes[:4])); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
		if got := rules.TrimPrefix(path, prefixes); got != rules.TrimPrefix(path, prefixes[:4]) || !strings.HasSuffix(got, want[0]) {
			t.Errorf("%q: got %q without the longest prefix, want %q", path, got, want[0])
		}
	}
	for path, want := range map[string][]string{"/v1/a": {"/a", "/v1/a"}, "/v1/eu": {"/", "/eu", "/v1/eu"}, "/v10/a": {"/v10/a"}, "/": {"/"},
		"/v1/": {"/", "/v1/", "/v1"}} {
		if got := read(t, "", rules.EncodedPath(path).Below(prefixes)); !slices.Equal(got, want) {
			t.Errorf("%q, also without a base path: got %q, want %q", path, got, want)
		}
	}
}

// A URL keeps the path of the request line, also with a character that must be encoded. A path that a middleware has
// changed replaces the RawPath of the request line.
func TestURLPath(t *testing.T) {
	for sent, want := range map[string]string{"/a%2Fb": "/a%2Fb", "/a%2f{b}": "/a%2f{b}", "/a{b}": "/a{b}", "/a b": "/a%20b",
		"/100%25": "/100%25"} {
		u := &url.URL{Path: sent}
		if parsed, err := url.ParseRequestURI(sent); err == nil && sent != "/a b" {
			u = parsed
		}
		if got := rules.URLPath(u).String(); got != want {
			t.Errorf("%s: got %s, want %s", sent, got, want)
		}
	}
	for _, target := range []string{"x:http://h/login", "/" + strings.Repeat("a", 8<<10)} {
		u, err := url.ParseRequestURI(target)
		if got := read(t, "", rules.URLPath(u)); err != nil || got != nil {
			t.Errorf("%.20s: got %q, %v, want no readings: the target is malformed", target, got, err)
		}
	}
	if got := rules.URLPath(&url.URL{Path: "/c", RawPath: "/a%2Fb"}).String(); got != "/c" {
		t.Errorf("changed path: got %s, want /c", got)
	}
}

// The zero Path is the root. Rules match it like "/".
func TestPath_zero(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/","limits":{"*":{"requests":1,"window":"1m"}}}]}`)
	for _, root := range []rules.Path{{}, rules.EncodedPath("/"), rules.EncodedPath("//"), rules.DecodedPath("/v1").Below([]string{"/v1"}),
		rules.URLPath(&url.URL{})} {
		if got := r.Charges(nil, http.MethodGet, root, alice); len(got) != 1 {
			t.Errorf("%q: got charges %v, want one charge on the path /", root, got)
		}
	}
}

// A request charges the limits of each reading, once for each limit and subject, at the highest cost, in file order.
func TestRules_Select_readings(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a/{x}","limits":{"*":[{"name":"endpoint","requests":9,"window":"1m"},{"name":"value","requests":9,"window":"1m",
			"per":["path:x"]}]}},
		{"endpoint":"/a/b/c","cost":2,"limits":{"*":{"name":"shared","requests":9,"window":"1m","per":["client"]}}},
		{"endpoint":"/{x}/{y}/c","limits":{"*":{"name":"empty","requests":9,"window":"1m"}}},
		{"endpoint":"*","method":"GET","limits":{"*":{"name":"shared","requests":9,"window":"1m","per":["client"]}}}],
		"usage":{"endpoint":"/usage","limit":{"name":"usage","requests":9,"window":"1m"}}}`)
	for path, want := range map[string]string{
		"/a/b":       "endpoint user:alice 1, value path:x=b 1, shared user:alice 1",
		"/a/b/":      "endpoint user:alice 1, value path:x=b 1, shared user:alice 1",
		"/a/b%2Fc":   "endpoint user:alice 1, value path:x=b%2Fc 1, shared user:alice 2, empty user:alice 1",
		"/a/%62":     "endpoint user:alice 1, value path:x=b 1, shared user:alice 1",
		"/a/%2F":     "endpoint user:alice 1, value path:x=%2F 1, shared user:alice 1",
		"/a//c":      "endpoint user:alice 1, value path:x=c 1, empty user:alice 1, shared user:alice 1",
		"/%61/b/c":   "shared user:alice 2, empty user:alice 1",
		"/a/":        "shared user:alice 1",
		"/%75sage":   "shared user:alice 1, usage user:alice 1",
		"/usage/":    "shared user:alice 1, usage user:alice 1",
		"/usage":     "usage user:alice 1",
		"/a/../a/b":  "",
		"/a/b%2F%2E": "",
	} {
		q := rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: caller.Caller{User: "alice"}}
		s := r.Select(nil, q)
		var got []string
		for _, c := range s.Charges {
			subject, _ := url.PathUnescape(strings.ReplaceAll(c.Subject.String(), "~", "%"))
			got = append(got, fmt.Sprintf("%s %s %d", c.Limit.Name, subject, c.Cost))
		}
		if text := strings.Join(got, ", "); text != want || (s.Usage != nil) != (path == "/usage") {
			t.Errorf("%s: got %s and usage %t, want %s", path, text, s.Usage != nil, want)
		}
		if e := r.Explain(q); (!slices.Equal(e.Charges, s.Charges) || !explains(e) ||
			len(slices.CompactFunc(slices.Clone(e.Matches), func(a, b rules.Match) bool { return a.Path == b.Path })) < len(e.Matches)) ||
			path == "/usage" && (len(e.Matches) != 2 || e.Matches[0].Reason == "") {
			t.Errorf("%s: explained: got %+v, want %+v", path, e, s)
		}
		if usage := r.IsUsage(q.Path); usage != (path == "/usage") {
			t.Errorf("%s: IsUsage: got %t", path, usage)
		}
	}
}

// Each reading has its own value of a path parameter, and a later rule with a higher cost determines the cost.
func TestRules_Select_readingValues(t *testing.T) {
	r := parse(t, `{"ignore_suffix":true,"rules":[
		{"endpoint":"/a/{x}","limits":{"*":[{"name":"value","requests":9,"window":"1m","per":["path:x"]},{"name":"shared","requests":9,
			"window":"1m","per":["client"]}]}},
		{"endpoint":"*","cost":2,"limits":{"*":{"name":"shared","requests":9,"window":"1m","per":["client"]}}}]}`)
	var got []string
	for _, c := range r.Charges(nil, "GET", rules.EncodedPath("/a/b.json"), caller.Caller{User: "alice"}) {
		got = append(got, fmt.Sprintf("%s %s %d", c.Limit.Name, c.Subject, c.Cost))
	}
	if want := []string{"value path:x=b.json 1", "shared user:alice 2", "value path:x=b 1"}; !slices.Equal(got, want) {
		t.Errorf("got charges %q, want %q", got, want)
	}
}

// More than four values of a parameter make a path malformed, because each value is an item of its own.
func TestRules_Select_manyValues(t *testing.T) {
	r := parse(t, `{"ignore_suffix":true,"ignore_parameters":true,"rules":[{"endpoint":"/a/{x}","limits":{"*":{"name":"x","requests":9,`+
		`"window":"1m","per":["path:x"]}}}]}`)
	for path, want := range map[string]int{"/a/b.json": 2, "/a/b.c%3Bd.e": 4, "/a/b%20.c%3Bd.e?f.g": 0} {
		s := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath(path), Caller: caller.Caller{User: "alice"}})
		if len(s.Charges) != want || s.Malformed != (want == 0) {
			t.Errorf("%s: got charges %v, malformed %t, want %d charges", path, s.Charges, s.Malformed, want)
		}
	}
}

// An exemption of an endpoint applies only if all readings are exempt. The first one in the document is reported.
func TestRules_Select_exemptReadings(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"all","requests":9,"window":"1m"}}}],"exempt":[{"endpoint":"/status/*"},`+
		`{"endpoint":"/status"},{"endpoint":"/health"},{"endpoint":"/check/{x}"},{"endpoint":"/check/c/d"}]}`)
	for path, want := range map[string]string{
		"/check/a": "exempt[3]", "/check/c%2Fd": "exempt[3]", "/check/a%2Fb": "", "/check/": "", "/check//": "", "/check/a/": "",
		"/health": "exempt[2]", "/%68ealth": "", "/h%65alth": "", "/health/": "", "//health": "", "/status": "exempt[0]", "/status/": "exempt[0]",
		"/status//a%2Fb/": "exempt[0]", "/%73tatus/a": "", "/status%2Fa": "", "/status/../x": "",
	} {
		got := ""
		if s := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath(path)}); s.Exemption != nil {
			got = s.Exemption.Path
		}
		if got != want {
			t.Errorf("%s: got exemption %q, want %q", path, got, want)
		}
	}
}

// A malformed path charges, like a bad credential, the limits by address of the rules for every path.
func TestRules_Select_malformed(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{"*":{"name":"a","requests":9,"window":"1m","per":["ip"]}}},
		{"endpoint":"*","limits":{"paid":{"name":"paid","requests":9,"window":"1m","per":["ip"]},"*":[{"name":"all","requests":9,"window":"1m",
			"per":["client"]},{"name":"bad","requests":9,"window":"1m","per":["ip"],"only":"bad_credentials"}],
			"global":[{"name":"address","requests":9,"window":"1m","per":["ip"]},{"name":"everybody","requests":9,"window":"1m","per":["global"]}]}},
		{"endpoint":"*","method":"POST","limits":{"*":{"name":"post","requests":9,"window":"1m","per":["ip"]}}}],
		"exempt":[{"ip":"192.0.2.0/24"},{"user":"ops"}]}`)
	c := caller.Caller{User: "ops", Tier: "paid", IP: netip.MustParsePrefix("203.0.113.7/32")}
	for _, path := range []string{"/a/..", "/%", "/a%2F.."} {
		for method, want := range map[string]string{"GET": "bad address", "HEAD": "bad address", "POST": "bad address post",
			"OPTIONS": "bad address"} {
			s := r.Select(nil, rules.Request{Method: method, Path: rules.EncodedPath(path), Caller: c})
			var got []string
			for _, c := range s.Charges {
				got = append(got, c.Limit.Name)
			}
			if strings.Join(got, " ") != want || !s.Malformed || s.Unmatched || s.Exemption != nil {
				t.Errorf("%s %s: got %v and %+v, want %s", method, path, got, s, want)
			}
		}
	}
	c.IP = netip.MustParsePrefix("192.0.2.7/32")
	if s := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/.."), Caller: c}); !s.Malformed || len(s.Charges) > 0 ||
		s.Exemption == nil {
		t.Errorf("exempt address: got %+v, want no charges of a malformed path", s)
	}
}

// Unmatched reports that no rule applies, but not for exempt requests.
func TestRules_Select_unmatched(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/a","method":"GET","limits":{"free":{"requests":1,"window":"1m"}}},{"endpoint":"/b/*",
		"limits":{"*":{"requests":1,"window":"1m"}}},{"endpoint":"/c/{x}","limits":{"*":{"requests":1,"window":"1m"}}},
		{"endpoint":"/users","limits":{"*":{"name":"users","requests":1,"window":"1m","per":["user"]}}}],"exempt":[{"endpoint":"/health"}]}`)
	for request, want := range map[string]bool{
		"GET /a": false, "HEAD /a": false, "get /a": false, "POST /a": true, "GET /%61": false,
		"DELETE /b/c": false, "GET /v1/a": true, "GET /": true,
		"OPTIONS /": true, "OPTIONS /b/c": false, "GET /health": false, "GET /health/": true, "GET /..": false, "GET /c/1": false,
		"GET /c/": true, "GET /users": false,
	} {
		method, path, _ := strings.Cut(request, " ")
		if s := r.Select(nil, rules.Request{Method: method, Path: rules.EncodedPath(path)}); s.Unmatched != want {
			t.Errorf("%s: got unmatched %t, want %t", request, s.Unmatched, want)
		}
	}
}

// With ignore_case, the spelling of an endpoint in the document has no effect either. Endpoints that no path can match
// are mistakes.
func TestParse_spelling(t *testing.T) {
	r := parse(t, `{"ignore_case":true,"rules":[{"endpoint":"/API/{Id}/Äſ","limits":{"*":{"requests":1,"window":"1m"}}}],`+
		`"exempt":[{"endpoint":"/Ping"}],"usage":{"endpoint":"/Usage","limit":{"requests":9,"window":"1m"}}}`)
	for _, path := range []string{"/API/1/ÄS", "/api/1/äſ", "/aPi/X/%C3%84s", "/apı/1/Äs"} {
		if got := r.Charges(nil, "GET", rules.EncodedPath(path), alice); len(got) != 1 {
			t.Errorf("%s: got %d charges, want 1", path, len(got))
		}
	}
	for path, want := range map[string]bool{"/pING": true, "/pİng": false} { // Express does not compare İ and i as equal
		if s := r.Select(nil, rules.Request{Method: "GET", Path: rules.DecodedPath(path), Caller: alice}); (s.Exemption != nil) != want {
			t.Errorf("%s: got exemption %v, want one: %t", path, s.Exemption, want)
		}
	}
	if s := r.Select(nil, rules.Request{Method: "GET", Path: rules.EncodedPath("/uSAGE"), Caller: alice}); s.Usage == nil {
		t.Error("/uSAGE: got no usage request, want one")
	}
	for fields, want := range map[string]string{
		`"ignore_case":1,`: "ignore_case: got 1, want true or false",
		`"ignore_parameters":true,`: `rules[0].endpoint: got "/a;b\\c", which no path matches with ignore_parameters or ` +
			`backslash_is_slash; want /a`,
		`"backslash_is_slash":true,`: `rules[0].endpoint: got "/a;b\\c", which no path matches with ignore_parameters or ` +
			`backslash_is_slash; want /a;b/c`,
		`"ignore_suffix":"yes",`:                   `ignore_suffix: got "yes", want true or false`,
		`"ignore_suffix":true,"ignore_case":true,`: "",
	} {
		_, err := rules.Parse([]byte(`{`+fields+`"rules":[{"endpoint":"/a;b\\c","limits":{"*":{"requests":1,"window":"1m"}}}]}`), rules.Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %q", fields, err, want)
		}
	}
}

// A plain path is its only reading, and Select allocates nothing for it.
func TestRules_Select_plainAllocations(t *testing.T) {
	for _, fields := range []string{"", everySetting} {
		r := parse(t, `{`+fields+`"rules":[{"endpoint":"/a/{x}","limits":{"*":{"name":"x","requests":9,"window":"1m"}}},{"endpoint":"*",`+
			`"limits":{"*":{"name":"all","requests":9,"window":"1m","per":["client"]}}}],"exempt":[{"endpoint":"/health"}]}`)
		charges := r.Charges(nil, "GET", rules.EncodedPath("/a/b"), alice)
		basePaths := []string{"/v1", "/v2", "/v1/eu"}
		if n := testing.AllocsPerRun(100, func() {
			r.Select(charges[:0], rules.Request{Method: "GET", Path: rules.EncodedPath("/v1/a/b").Below(basePaths), Caller: alice})
		}); n != 0 || len(charges) != 2 {
			t.Errorf("%s: got %v allocations and %d charges, want 0 and 2", fields, n, len(charges))
		}
	}
}

// FuzzPath checks the readings of any path: their number is bounded, none has a dot segment, and a plain path is its only
// reading. The paths that an http.ServeMux and a server of files can derive from it are among the readings.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "//a/%73/b/", "/.", "/%2f%2e%2e", "/%2541", "/%25%34%31", "/a%", "/%zz%2F..%2F..%2Fq", "/a%00\xff",
		"/v1/%2e", "/a;b+c\\d", "/a #?", "/%2F%61//A.b.c;%3B%5C/ ", "/%2F0// #00/ "} {
		f.Add(seed, "/v1", true, false)
		f.Add(seed, "", false, true)
	}
	f.Fuzz(func(t *testing.T, sent, prefix string, decoded, settings bool) {
		if !rules.Plain(prefix) || prefix == "/" {
			prefix = ""
		}
		p, most, fields := rules.EncodedPath(sent), 16*9, "" // texts, and readings of each
		if decoded {
			p = rules.DecodedPath(sent)
		}
		if settings {
			most, fields = 20*18*4, everySetting
		}
		readings := read(t, fields, p.Below([]string{prefix}))
		if len(readings) > most {
			t.Errorf("%q: got %d readings, want at most %d", sent, len(readings), most)
		}
		for i, path := range readings {
			if !strings.HasPrefix(path, "/") || strings.Contains(path+"/", "/../") || strings.Contains(path+"/", "/./") ||
				slices.Contains(readings[:i], path) {
				t.Errorf("%q: got reading %q of %q, want paths without dot segments, each once", sent, path, readings)
			}
		}
		if rules.Plain(sent) && prefix == "" && !settings && !slices.Equal(readings, []string{sent}) {
			t.Errorf("%q: got readings %q, want only the path", sent, readings)
		}
		if _, err := url.PathUnescape(sent); !decoded && err != nil && readings != nil {
			t.Errorf("%q: got readings %q, want a malformed path", sent, readings)
		}
		u, err := url.ParseRequestURI(sent)
		if err != nil || u.Path == "" || u.RawQuery != "" || u.ForceQuery || u.Host != "" || u.Scheme != "" || settings || prefix != "" ||
			readings == nil {
			return
		}
		if !slices.Contains(readings, u.Path) || !slices.Contains(readings, sent) {
			t.Errorf("%q: got readings %q, want %q among them", sent, readings, u.Path)
		}
	})
}
