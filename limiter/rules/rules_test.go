package rules_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

func parse(tb testing.TB, document string) *rules.Rules {
	tb.Helper()
	r, err := rules.Parse([]byte(document), rules.Options{Items: dynamostore.Items{}, Version: 1, OneRegion: true})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func load(tb testing.TB, file string) *rules.Rules {
	tb.Helper()
	document, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return parse(tb, string(document))
}

var (
	address   = netip.MustParsePrefix("203.0.113.7/32")
	anonymous = caller.Caller{IP: address}
	alice     = caller.Caller{User: "alice", IP: address}
)

func show(charges []limiter.Charge) string {
	var list []string
	for _, c := range charges {
		list = append(list, fmt.Sprintf("%s %s %d", c.Subject, c.Limit.Name, c.Cost))
	}
	return strings.Join(list, ", ")
}

func TestRules_Charges(t *testing.T) {
	design, all := load(t, "testdata/good/design.json"), load(t, "testdata/good/everything.json")
	only := load(t, "testdata/good/only.json")
	posts := parse(t, `{"rules":[{"endpoint":"*","method":"POST","limits":{"*":[{"name":"all","requests":9,"window":"1m","per":["ip"]},
		{"name":"guesses","requests":9,"window":"1m","per":["ip"],"only":"bad_credentials"}]}}]}`)
	pro := caller.Caller{User: "pat", APIKey: "k1", IP: address, Tier: "pro", Claims: map[string][]string{"org": {"acme"}}}
	key := caller.Caller{APIKey: "k1", IP: address}
	rejected := caller.Caller{IP: address, Rejected: true}
	for _, c := range []struct {
		name         string
		rules        *rules.Rules
		method, path string
		caller       caller.Caller
		want         string
	}{
		{"user", design, "GET", "/api/v1/search", alice, "user:alice search 1"},
		{"anonymous", design, "GET", "/api/v1/search", anonymous, "ip:203.0.113.7 search 1"},
		{"HEAD is GET", design, "HEAD", "/api/v1/search", alice, "user:alice search 1"},
		{"a plain OPTIONS counts on no rule with a method", design, "OPTIONS", "/api/v1/search", alice, ""},
		{"other method", design, "POST", "/api/v1/search", alice, ""},
		{"other path", design, "GET", "/api/v1/searches", alice, ""},
		{"path in another spelling", design, "GET", "//api/v1//%73earch/", alice, "user:alice search 1"},
		{"caller and global", design, "POST", "/api/v1/data", alice, "user:alice data 1, endpoint:POST:/api/v1/data data 1"},
		{"tier without a limit", design, "POST", "/api/v1/data", caller.Caller{User: "bob", Tier: "paid"}, "endpoint:POST:/api/v1/data data 1"},
		{"rejected credential", design, "POST", "/api/v1/data", rejected, ""},

		{"root", all, "GET", "/", anonymous, "ip:203.0.113.7 address 1, global everybody 1, endpoint::/ all 1"},
		{"below", all, "GET", "/api/v2/x", key, "ip:203.0.113.7 address 1, global everybody 1, apikey:k1 api 1"},
		{"the prefix itself", all, "GET", "/api/", key, "ip:203.0.113.7 address 1, global everybody 1, apikey:k1 api 1"},
		{"default tier", all, "GET", "/api/v1/items/5", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1, user:alice " +
			"items 2"},
		{"unknown tier", all, "GET", "/api/v1/items/5", caller.Caller{User: "eve", Tier: "global", IP: address},
			"ip:203.0.113.7 address 1, global everybody 1, user:eve api 1, user:eve items 2"},
		{"several limits", all, "GET", "/api/v1/items/5", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, user:pat second " +
			"2, user:pat month 2"},
		{"two identities", all, "DELETE", "/api/v1/items/5", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, " +
			"claim:org=acme|user:pat organisation 1"},
		{"one of them missing", all, "DELETE", "/api/v1/items/5", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1"},
		{"no API key", all, "PUT", "/api/v1/Reports%20(all)", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1"},
		{"API key", all, "PUT", "/api/v1/Reports (all)", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, apikey:k1 " +
			"reports-all 1"},
		{"rejected credential is charged by address", all, "DELETE", "/api/v1/items/5", rejected, "ip:203.0.113.7 address 1"},

		{"bad credential", only, "GET", "/a", rejected, "ip:203.0.113.7 a 1, ip:203.0.113.7 address 1, ip:203.0.113.7 bad-credentials 1"},
		{"credential that could not be verified", only, "GET", "/b", caller.Caller{IP: rejected.IP, Rejected: true, Unverified: true},
			"ip:203.0.113.7 address 1"},
		{"bad credential elsewhere", only, "GET", "/b", rejected, "ip:203.0.113.7 address 1, ip:203.0.113.7 bad-credentials 1"},
		{"bad credential by another method", posts, "OPTIONS", "/a", rejected, "ip:203.0.113.7 guesses 1"},
		{"good token", only, "GET", "/a", alice, ""},
		{"good key", only, "GET", "/a", key, ""},
		{"no credential", only, "GET", "/a", anonymous, "ip:203.0.113.7 address 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(c.rules.Charges(nil, c.method, rules.EncodedPath(c.path), c.caller)); got != c.want {
				t.Errorf("charges:\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// The identity of a limit does not depend on its place in the document.
func TestParse_identity(t *testing.T) {
	ids := func(document string) map[limiter.ID]string {
		all := map[limiter.ID]string{}
		for _, tier := range []string{"free", "paid"} {
			for _, c := range parse(t, document).Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: "u", Tier: tier}) {
				all[c.Limit.ID] = tier + " " + c.Limit.Fingerprint()
			}
		}
		return all
	}
	one := ids(`{"rules":[{"endpoint":"/a","limits":{"free":[{"name":"x","requests":1,"window":"1m"},{"name":"y","requests":2,` +
		`"window":"1m"}],"paid":{"requests":3,"window":"1m"}}}]}`)
	moved := ids(`{"rules":[{"endpoint":"/b","limits":{"free":{"requests":9,"window":"1h"}}},{"endpoint":"/a",` +
		`"limits":{"paid":{"requests":3,"window":"1m"},"free":[{"name":"y","requests":2,"window":"1m"},{"name":"x","requests":1,` +
		`"window":"1m"}]}}]}`)
	if len(one) != 3 || !maps.Equal(one, moved) {
		t.Errorf("identities before and after a change of the order of rules: got\n%v and\n%v, want the same three", one, moved)
	}
	other := ids(`{"rules":[{"endpoint":"/a","method":"GET","limits":{"free":{"name":"x","requests":1,"window":"1m"},"paid":{"name":"all",` +
		`"requests":3,"window":"1m"}}}]}`)
	for id := range other {
		if one[id] != "" {
			t.Errorf("limit %s of a rule for GET: got the identity of the limit of a rule for every method, want another identity", one[id])
		}
	}
}

// If per does not contain "endpoint", all rules that use the name of a limit share its count. The limit
// counts a request that matches several of these rules once, at the highest cost.
func TestParse_shared(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","cost":2,"limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}},
		{"endpoint":"/b","limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}},
		{"endpoint":"*","limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}}]}`)
	a, b := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice), r.Charges(nil, "GET", rules.EncodedPath("/b"), alice)
	if len(a) != 1 || len(b) != 1 || a[0].Limit != b[0].Limit || a[0].Cost != 2 || b[0].Cost != 1 {
		t.Errorf("charges: got %s for /a and %s for /b, want one limit with costs 2 and 1", show(a), show(b))
	}
}

// A limit by client and claim has the same subject as a limit by the claim and the user, key or address
// of the caller. Therefore, these limits have the same horizon, the longest.
func TestParse_horizon_combined(t *testing.T) {
	acme := map[string][]string{"org": {"acme"}}
	for kind, caller := range map[string]caller.Caller{
		"user": {User: "u", APIKey: "k", IP: address, Claims: acme}, "apikey": {APIKey: "k", IP: address, Claims: acme},
		"ip": {IP: address, Claims: acme},
	} {
		r := parse(t, document(
			rule("/a", "", `"*":{"requests":1,"window":"1s","per":["client","claim:org","endpoint"]}`),
			rule("/b", "", `"*":{"requests":20,"window":"30d","per":["`+kind+`","endpoint","claim:org"]}`),
			rule("/c", "", `"*":{"requests":1,"window":"1s","per":["`+kind+`","endpoint","claim:org"]}`),
			rule("/d", "", `"*":{"requests":1,"window":"1s","per":["`+kind+`","endpoint"]}`)))
		of := func(path string) limiter.Charge { return r.Charges(nil, "GET", rules.EncodedPath(path), caller)[0] }
		if a, b := of("/a"), of("/b"); a.Subject != b.Subject {
			t.Errorf("%s: got subjects %s and %s, want the same", kind, a.Subject, b.Subject)
		}
		for path, want := range map[string]time.Duration{"/a": 60 * 24 * time.Hour, "/b": 60 * 24 * time.Hour, "/c": 60 * 24 * time.Hour,
			"/d": 6 * time.Second} {
			if got := of(path).Limit.Horizon; got != want {
				t.Errorf("%s: horizon of %s: got %s, want %s", kind, path, got, want)
			}
		}
	}
}

func TestRules_Counts(t *testing.T) {
	for document, want := range map[string][]limiter.Counted{
		`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":50,"window":"1m"}}}]}`: nil,
		`{"rules":[{"endpoint":"/a","limits":{"*":{"requests":50,"window":"1m","count":"failures"}}},{"endpoint":"/b",
			"limits":{"a":{"requests":50,"window":"1m"},"b":
			[{"name":"c","requests":50,"window":"1m","count":"cost","reserve":5},{"name":"f","requests":9,"window":"1m",
				"count":"failures"}]}}]}`: {limiter.CountFailures, limiter.CountCost},
	} {
		if got := parse(t, document).Counts(); !slices.Equal(got, want) {
			t.Errorf("got counts %v, want %v: %s", got, want, document)
		}
	}
}

func TestRules_Tier(t *testing.T) {
	known := document(rule("/a", "", `"free":`+limit+`,"paid":{"requests":2,"window":"1s"},"*":{"requests":3,"window":"1s"},`+
		`"global":{"requests":4,"window":"1s"}`))
	for _, c := range []struct{ defaultTier, claimed, want string }{
		{"free", "paid", "paid"}, {"free", "free", "free"}, {"free", "", "free"}, {"free", "gold", "free"}, {"free", "*", "free"},
		{"free", "global", "free"},
		{"paid", "", "paid"}, {"paid", "gold", "paid"}, {"paid", "free", "free"},
	} {
		r := parse(t, strings.Replace(known, "{", fmt.Sprintf(`{"default_tier":%q,`, c.defaultTier), 1))
		if got := r.Tier(c.claimed); got != c.want {
			t.Errorf("default %s: tier of %q: got %q, want %q", c.defaultTier, c.claimed, got, c.want)
		}
		claimed, decides := caller.Caller{User: "u", Tier: c.claimed}, caller.Caller{User: "u", Tier: c.want}
		if got, want := show(r.Charges(nil, "GET", rules.EncodedPath("/a"), claimed)),
			show(r.Charges(nil, "GET", rules.EncodedPath("/a"), decides)); got != want {
			t.Errorf("default %s: charges of %q: got %s, want %s", c.defaultTier, c.claimed, got, want)
		}
	}
}

// A parameter matches exactly one segment, which is not empty.
func TestRules_Charges_parameter(t *testing.T) {
	r := parse(t, document(rule("/items/{id}", "", `"*":`+limit), rule("/{x}", "", `"*":{"name":"one","requests":1,"window":"1s"}`)))
	for path, want := range map[string]string{
		"/": "", "//": "", "/items": "ip:203.0.113.7 one 1", "/items/": "ip:203.0.113.7 one 1", "/items//": "ip:203.0.113.7 one 1",
		"/items/5": "ip:203.0.113.7 items 1", "/items/5/": "ip:203.0.113.7 items 1", "/items/5/6": "",
	} {
		if got := show(r.Charges(nil, "GET", rules.EncodedPath(path), anonymous)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// Two limits with one name that count by different identities are charged separately. Charges does not
// combine the charges of two requests.
func TestRules_Charges_sameLimit(t *testing.T) {
	r := parse(t, document(rule("/a", "", `"*":[{"name":"s","requests":3,"window":"1s","per":["user"]},{"name":"s","requests":5,`+
		`"window":"1s","per":["ip"]}]`)))
	if got, want := show(r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)), "user:alice s 1, ip:203.0.113.7 s 1"; got != want {
		t.Errorf("charges: got %s, want %s", got, want)
	}
	own := r.Charges(nil, "GET", rules.EncodedPath("/a"), alice)
	own = r.Charges(own, "GET", rules.EncodedPath("/a"), alice)
	if len(own) != 4 {
		t.Errorf("two requests: got charges %s, want four", show(own))
	}
}

// The limits of a rule and the overrides of these limits have the on_error of the rule.
func TestRules_Charges_onError(t *testing.T) {
	r := load(t, "testdata/good/on_error.json")
	for _, c := range []struct {
		path, user, tier string
		want             string
	}{
		{"/login", "", "", "deny 0 5, allow 0 600"},
		{"/search", "bob", "free", "local 4 5, allow 0 600"},   // 4 processes divide a bucket of 20 requests: 20/4 = 5
		{"/search", "alice", "free", "local 4 2, allow 0 600"}, // 4 processes divide the burst of 8 requests of the override: 8/4 = 2
		{"/api/x", "", "", "local 1 1, allow 0 600"},
		{"/other", "", "", "allow 0 600"},
	} {
		var got []string
		for _, c := range r.Charges(nil, "GET", rules.EncodedPath(c.path),
			caller.Caller{User: c.user, IP: netip.MustParsePrefix("203.0.113.7/32"), Tier: c.tier}) {
			got = append(got, fmt.Sprint(c.Limit.OnError, " ", c.Limit.LocalProcesses, " ", c.Limit.MaxLocalCost()))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s of %q: got %s, want %s", c.path, c.user, got, c.want)
		}
	}
}

// The form of a refusal is that of the first rule for the request that has one, or else of the document.
func TestRules_Select_refusal(t *testing.T) {
	const some = `"limits":{"*":` + limit + `}`
	document := `{"refusal":"openai","rules":[{"endpoint":"*",` + some + `},{"endpoint":"/mcp","method":"POST","refusal":"json-rpc",` + some +
		`},{"endpoint":"/mcp","refusal":"problem","limits":{"*":{"name":"b","requests":9,"window":"1m"}}}]}`
	r := parse(t, document)
	for _, c := range []struct{ method, path, want string }{{"GET", "/v1/chat", "openai"}, {"POST", "/mcp", "json-rpc"},
		{"GET", "/mcp", "problem"}, {"GET", "/%zz", "openai"}} {
		if got := r.Select(nil, rules.Request{Method: c.method, Path: rules.EncodedPath(c.path)}).Refusal; got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.method, c.path, got, c.want)
		}
	}
	if got := notes(t, document, "the form of the document, openai"); len(got) != 2 || r.Refusal() != "openai" {
		t.Errorf("got the form %s and the notes %q, want openai and a note on each rule with another form", r.Refusal(), got)
	}
	if got := parse(t, `{"rules":[]}`).Refusal(); got != "problem" {
		t.Errorf("default: got %q, want problem", got)
	}
	_, err := rules.Parse([]byte(`{"refusal":"open-ai","rules":[]}`), rules.Options{})
	if err == nil || !strings.Contains(err.Error(), `refusal: got "open-ai", want problem, openai or json-rpc (did you mean "openai"?)`) {
		t.Errorf("unknown form: got %v", err)
	}
}
