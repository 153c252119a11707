package rules_test

import (
	"slices"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// explains reports whether the rules in e list each charge of e, and whether each listed limit has either
// a charge or a reason.
func explains(e rules.Explanation) bool {
	listed := map[limiter.Charge]bool{}
	charged := 0
	for _, m := range e.Matches {
		for _, l := range m.Limits {
			if l.Charge.Limit == nil || l.Path == "" || l.Reason == "" && l.Charge.Subject == (limiter.Subject{}) {
				return false
			}
			if l.Reason == "" {
				charged++
			}
			listed[l.Charge] = true
		}
	}
	return charged == len(e.Charges) && !slices.ContainsFunc(e.Charges, func(c limiter.Charge) bool { return !listed[c] })
}

const explained = `{"rules":[
  {"endpoint":"/api/search","method":"GET","limits":{"free":{"requests":10,"window":"1m"},"paid":{"requests":20,"window":"1m"}}},
  {"endpoint":"/api/search","method":"POST","limits":{"*":{"requests":10,"window":"1m"}}},
  {"endpoint":"/api/*","cost":2,"limits":{"global":[
    {"name":"address","requests":100,"window":"1m","per":["ip"]},
    {"name":"user","requests":100,"window":"1m","per":["user"]},
    {"name":"org","requests":100,"window":"1m","per":["claim:org","user"]}]}},
  {"endpoint":"*","mode":"shadow","cost":3,"limits":{"free":{"name":"tried","requests":50,"window":"1m"},"global":{"name":"all",
  	"requests":100,"window":"1s"}}},
  {"endpoint":"/other","limits":{"*":{"requests":10,"window":"1m"}}},
  {"endpoint":"/api/{what}","cost":5,"limits":{"global":{"name":"address","requests":100,"window":"1m","per":["ip"]}}}],
 "overrides":[{"user":"alice","limits":{"search":{"requests":500,"window":"1m"}}}]}`

func explain(t *testing.T, method, path string, caller caller.Caller) rules.Explanation {
	t.Helper()
	caller.IP = address
	r, err := rules.Parse([]byte(explained), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := r.Explain(rules.Request{Method: method, Path: rules.EncodedPath(path), Caller: caller})
	if !slices.Equal(e.Charges, r.Charges(nil, method, rules.EncodedPath(path), caller)) || !explains(e) {
		t.Errorf("%s %s: got %+v, want every charge in the list of a rule", method, path, e)
	}
	return e
}

// Explain lists each rule whose endpoint matches, with the charges of the rule or the reason why it
// has no charge.
func TestRules_Explain(t *testing.T) {
	const once = "shares its count with an earlier limit; the request is charged once, at the higher cost"
	for _, c := range []struct {
		method, path string
		caller       caller.Caller
		want         map[string]string // reason why a rule or a limit is not charged, by path; "" if it is charged
	}{
		{"HEAD", "/api//search/", caller.Caller{User: "alice", Tier: "paid"}, map[string]string{
			"rules[0]": "", "rules[0].limits.paid": "",
			"rules[1]": "applies to POST",
			"rules[2]": "", "rules[2].limits.global[0]": "", "rules[2].limits.global[1]": "",
			"rules[2].limits.global[2]": "counts by claim:org, which the caller lacks",
			"rules[3]":                  "has no limit for tier paid or for *", "rules[3].limits.global": "",
			"rules[5]": "", "rules[5].limits.global": once,
		}},
		{"GET", "/api/a/b", caller.Caller{Rejected: true}, map[string]string{
			"rules[2]": "", "rules[2].limits.global[0]": "",
			"rules[2].limits.global[1]": "only limits by ip charge a request with a bad credential",
			"rules[2].limits.global[2]": "only limits by ip charge a request with a bad credential",
			"rules[3]":                  "", "rules[3].limits.free": "only limits by ip charge a request with a bad credential",
			"rules[3].limits.global": "only limits by ip charge a request with a bad credential",
		}},
	} {
		got := map[string]string{}
		for _, m := range explain(t, c.method, c.path, c.caller).Matches {
			got[m.Path] = m.Reason
			for _, l := range m.Limits {
				got[l.Path] = l.Reason
			}
		}
		for path, want := range c.want {
			if reason, ok := got[path]; !ok || reason != want {
				t.Errorf("%s %s: %s: got %q (listed: %t), want %q", c.method, c.path, path, reason, ok, want)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s %s: got %d entries, want %d: %q", c.method, c.path, len(got), len(c.want), got)
		}
	}
}

// Explain lists a limit with the field "only" for every caller. If the limit is skipped, Explain has the
// reason.
func TestRules_Explain_only(t *testing.T) {
	const unverified, bad = "not charged: only requests without a verified user or API key", "not charged: only requests with a bad credential"
	r := load(t, "testdata/good/only.json")
	for _, c := range []struct {
		caller caller.Caller
		want   [2]string // reasons of the limits address and bad-credentials
	}{
		{anonymous, [2]string{"", bad}},
		{alice, [2]string{unverified, bad}},
		{caller.Caller{APIKey: "k1", IP: address}, [2]string{unverified, bad}},
		{caller.Caller{IP: address, Rejected: true}, [2]string{}},
	} {
		limits := r.Explain(rules.Request{Method: "GET", Path: rules.EncodedPath("/b"), Caller: c.caller}).Matches[0].Limits
		if got := [2]string{limits[0].Reason, limits[1].Reason}; got != c.want {
			t.Errorf("%+v: got %q, want %q", c.caller, got, c.want)
		}
	}
}

// If the caller has a tier, Of gives the limits of other tiers a reason. A limit that several rules share has none if one
// of the rules applies it to the tier.
func TestRules_Of_tier(t *testing.T) {
	const limit = `{"name":"shared","requests":9,"window":"1m","per":["client"]}`
	r := parse(t, `{"rules":[
		{"endpoint":"/a","limits":{"free":{"requests":1,"window":"1m"},"*":`+limit+
		`,"global":{"name":"address","requests":9,"window":"1m","per":["ip"]}}},
		{"endpoint":"/b","limits":{"paid":{"requests":2,"window":"1m"},"*":`+limit+`}}]}`)
	for tier, want := range map[string]string{
		"":     "* free global paid",
		"free": "* free global",
		"paid": "* global paid",
	} {
		got := ""
		for _, l := range r.Of(rules.Request{Caller: caller.Caller{IP: address, Tier: tier}}, limiter.IP(address)) {
			if l.Reason == "" {
				got += " " + l.Tier
			}
		}
		if got != " "+want {
			t.Errorf("tier %q: got the limits%s, want %s", tier, got, want)
		}
	}
}

// Of returns the limits of a subject in all tiers, and no limit of another subject.
func TestRules_Of(t *testing.T) {
	r, err := rules.Parse([]byte(explained), rules.Options{Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	alice, org := limiter.User("alice"), limiter.Claim("org", "acme")
	both := caller.Caller{User: "alice", Claims: map[string][]string{"org": {"acme"}}, IP: address}
	for _, c := range []struct {
		caller  caller.Caller
		subject limiter.Subject
		want    []string
	}{
		{caller.Caller{User: "alice"}, alice, []string{"rules[0].limits.free", "rules[0].limits.paid", "rules[1].limits.*",
			"rules[2].limits.global[1]", "rules[3].limits.free", "rules[4].limits.*"}},
		{caller.Caller{APIKey: "k"}, limiter.APIKey("k"), []string{"rules[0].limits.free", "rules[0].limits.paid", "rules[1].limits.*",
			"rules[3].limits.free", "rules[4].limits.*"}},
		{caller.Caller{IP: address}, limiter.IP(address), []string{"rules[0].limits.free", "rules[0].limits.paid", "rules[1].limits.*",
			"rules[2].limits.global[0]", "rules[3].limits.free", "rules[4].limits.*"}},
		{both, org.And(alice), []string{"rules[2].limits.global[2]"}},
		{both, alice.And(org), nil},
		{caller.Caller{}, limiter.Endpoint("", "*"), []string{"rules[3].limits.global"}},
		{caller.Caller{}, limiter.Global(), nil},
	} {
		var got []string
		for _, l := range r.Of(rules.Request{Caller: c.caller}, c.subject) {
			got = append(got, l.Path)
			if l.Charge.Subject != c.subject || l.Overridden != (c.subject == alice && l.Charge.Limit.Name == "search") {
				t.Errorf("%s: got %+v, want a charge on this subject, and an override only for alice's search", c.subject, l)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.subject, got, c.want)
		}
	}
}
