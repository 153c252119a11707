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
	"github.com/weir-limits/weir/limiter/rules"
)

func parse(tb testing.TB, document string) *rules.Rules {
	tb.Helper()
	r, err := rules.Parse([]byte(document), rules.Options{Version: 1})
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
	anonymous = limiter.Caller{IP: address}
	alice     = limiter.Caller{User: "alice", IP: address}
)

// show writes charges as subject name cost, one after another.
func show(charges []limiter.Charge) string {
	var list []string
	for _, c := range charges {
		list = append(list, fmt.Sprintf("%s %s %d", c.Subject, c.Limit.Name, c.Cost))
	}
	return strings.Join(list, ", ")
}

func TestRules_Charges(t *testing.T) {
	design, all := load(t, "testdata/good/design.json"), load(t, "testdata/good/everything.json")
	pro := limiter.Caller{User: "pat", APIKey: "k1", IP: address, Tier: "pro", Claims: map[string]string{"org": "acme"}}
	key := limiter.Caller{APIKey: "k1", IP: address}
	rejected := limiter.Caller{IP: address, Rejected: true}
	for _, c := range []struct {
		name         string
		rules        *rules.Rules
		method, path string
		caller       limiter.Caller
		want         string
	}{
		{"user", design, "GET", "/api/v1/search", alice, "user:alice search 1"},
		{"anonymous", design, "GET", "/api/v1/search", anonymous, "ip:203.0.113.7 search 1"},
		{"HEAD is GET", design, "HEAD", "/api/v1/search", alice, "user:alice search 1"},
		{"OPTIONS is free", design, "OPTIONS", "/api/v1/search", alice, ""},
		{"other method", design, "POST", "/api/v1/search", alice, ""},
		{"other path", design, "GET", "/api/v1/searches", alice, ""},
		{"spelled another way", design, "GET", "//api/./v1/x/../%73earch/", alice, "user:alice search 1"},
		{"caller and global", design, "POST", "/api/v1/data", alice, "user:alice data 1, endpoint:POST:/api/v1/data data 1"},
		{"tier without a limit", design, "POST", "/api/v1/data", limiter.Caller{User: "bob", Tier: "paid"}, "endpoint:POST:/api/v1/data data 1"},
		{"rejected credential", design, "POST", "/api/v1/data", rejected, ""},

		{"root", all, "GET", "/", anonymous, "ip:203.0.113.7 address 1, global everybody 1, endpoint::/ all 1"},
		{"below", all, "GET", "/api/v2/x", key, "ip:203.0.113.7 address 1, global everybody 1, apikey:k1 api 1"},
		{"the prefix itself", all, "GET", "/api/", key, "ip:203.0.113.7 address 1, global everybody 1, apikey:k1 api 1"},
		{"default tier", all, "GET", "/api/v1/items/5", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1, user:alice items 2"},
		{"unknown tier", all, "GET", "/api/v1/items/5", limiter.Caller{User: "eve", Tier: "global", IP: address}, "ip:203.0.113.7 address 1, global everybody 1, user:eve api 1, user:eve items 2"},
		{"several limits", all, "GET", "/api/v1/items/5", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, user:pat second 2, user:pat month 2"},
		{"two identities", all, "DELETE", "/api/v1/items/5", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, claim:org=acme|user:pat organisation 1"},
		{"one of them missing", all, "DELETE", "/api/v1/items/5", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1"},
		{"no API key", all, "PUT", "/api/v1/Reports%20(all)", alice, "ip:203.0.113.7 address 1, global everybody 1, user:alice api 1"},
		{"API key", all, "PUT", "/api/v1/Reports (all)", pro, "ip:203.0.113.7 address 1, global everybody 1, user:pat api 1, apikey:k1 reports-all 1"},
		{"rejected pays by address", all, "DELETE", "/api/v1/items/5", rejected, "ip:203.0.113.7 address 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(c.rules.Charges(nil, c.method, c.path, c.caller)); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// The document of the design, limit by limit.
func TestParse_design(t *testing.T) {
	r := load(t, "testdata/good/design.json")
	for _, c := range []struct {
		tier, method, path string
		want               []string
	}{
		{"free", "GET", "/api/v1/search", []string{"bucket/600ms/20"}},
		{"paid", "GET", "/api/v1/search", []string{"bucket/60ms/100"}},
		{"enterprise", "GET", "/api/v1/search", []string{"sliding/1m0s/10000"}},
		{"", "GET", "/api/v1/search", []string{"bucket/600ms/20"}},
		{"gold", "GET", "/api/v1/search", []string{"bucket/600ms/20"}},
		{"free", "POST", "/api/v1/data", []string{"sliding/1m0s/10", "sliding/1s/100000"}},
	} {
		charges := r.Charges(nil, c.method, c.path, limiter.Caller{User: "a", Tier: c.tier})
		var got []string
		for _, charge := range charges {
			got = append(got, charge.Limit.Fingerprint())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s %s %s: got %v, want %v", c.tier, c.method, c.path, got, c.want)
		}
	}
	if got, want := r.Tiers(), []string{"enterprise", "free", "paid"}; !slices.Equal(got, want) {
		t.Errorf("tiers %v, want %v", got, want)
	}
}

// What a limit is decides its identity, not where it stands.
func TestParse_identity(t *testing.T) {
	ids := func(document string) map[limiter.ID]string {
		all := map[limiter.ID]string{}
		for _, tier := range []string{"free", "paid"} {
			for _, c := range parse(t, document).Charges(nil, "GET", "/a", limiter.Caller{User: "u", Tier: tier}) {
				all[c.Limit.ID] = tier + " " + c.Limit.Fingerprint()
			}
		}
		return all
	}
	one := ids(`{"rules":[{"endpoint":"/a","limits":{"free":[{"name":"x","requests":1,"window":"1m"},{"name":"y","requests":2,"window":"1m"}],"paid":{"requests":3,"window":"1m"}}}]}`)
	moved := ids(`{"rules":[{"endpoint":"/b","limits":{"free":{"requests":9,"window":"1h"}}},{"endpoint":"/a","limits":{"paid":{"requests":3,"window":"1m"},"free":[{"name":"y","requests":2,"window":"1m"},{"name":"x","requests":1,"window":"1m"}]}}]}`)
	if len(one) != 3 || !maps.Equal(one, moved) {
		t.Errorf("identities\n%v\nafter moving\n%v", one, moved)
	}
	other := ids(`{"rules":[{"endpoint":"/a","method":"GET","limits":{"free":{"name":"x","requests":1,"window":"1m"},"paid":{"name":"all","requests":3,"window":"1m"}}}]}`)
	for id := range other {
		if one[id] != "" {
			t.Errorf("a rule for GET shares %s with one for every method", one[id])
		}
	}
}

// A limit without endpoint in its per is one count for all rules that use its name,
// and a request that meets it twice is counted once, at the higher cost.
func TestParse_shared(t *testing.T) {
	r := parse(t, `{"rules":[
		{"endpoint":"/a","cost":2,"limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}},
		{"endpoint":"/b","limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}},
		{"endpoint":"*","limits":{"*":{"name":"shared","requests":10,"window":"1m","per":["client"]}}}]}`)
	a, b := r.Charges(nil, "GET", "/a", alice), r.Charges(nil, "GET", "/b", alice)
	if len(a) != 1 || len(b) != 1 || a[0].Limit != b[0].Limit || a[0].Cost != 2 || b[0].Cost != 1 {
		t.Errorf("/a is charged %s, /b %s", show(a), show(b))
	}
}

// A short limit keeps its subject as long as the longest limit needs that the subject
// can hold, whichever identity the caller comes with.
func TestParse_horizon(t *testing.T) {
	r := parse(t, `{"version":3,"rules":[
		{"endpoint":"/a","limits":{"*":{"requests":10,"window":"1s"}}},
		{"endpoint":"/b","limits":{"*":{"requests":10,"window":"1d","per":["user","endpoint"]}}},
		{"endpoint":"/c","limits":{"global":{"requests":10,"window":"30d"}}}]}`)
	charge := r.Charges(nil, "GET", "/a", alice)[0]
	if got, want := charge.Limit.Horizon, 48*time.Hour; got != want {
		t.Errorf("horizon %s, want %s", got, want)
	}
	if r.Version() != 3 || charge.Limit.Version != 3 {
		t.Errorf("version %d, of the limit %d, want 3", r.Version(), charge.Limit.Version)
	}
}

func TestNormalizePath(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "": "/", "//": "/", "/a": "/a", "a": "/a", "/a/": "/a", "/a//b": "/a/b", "//a": "/a", "/a/b/": "/a/b",
		"/%61": "/a", "/a%2fb": "/a/b", "/%2561": "/%61", "/%": "/%", "/%6": "/%6", "/%zz": "/%zz", "/a%00b": "/a\x00b",
		"/./a": "/a", "/a/.": "/a", "/a/./b": "/a/b", "/a/../b": "/b", "/../..": "/", "/a/..": "/", "/%2e%2e/a": "/a", "/.a": "/.a", "/a.b": "/a.b", "/...": "/...",
		"/A": "/A", "/a b": "/a b", "/a?b": "/a?b",
	} {
		if got := rules.NormalizePath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, seed := range []string{"/", "//a/%73/../b/", "/.", "/%2f%2e%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		normal := rules.NormalizePath(path)
		if !strings.HasPrefix(normal, "/") || strings.Contains(normal, "//") || normal != "/" && strings.HasSuffix(normal, "/") {
			t.Errorf("%q: %q is not normal", path, normal)
		}
		if !strings.Contains(normal, "%") && rules.NormalizePath(normal) != normal {
			t.Errorf("%q: %q is normalized again to %q", path, normal, rules.NormalizePath(normal))
		}
	})
}

func BenchmarkCharges(b *testing.B) {
	r := load(b, "testdata/good/design.json")
	var charges []limiter.Charge
	b.ReportAllocs()
	for b.Loop() {
		charges = r.Charges(charges[:0], "GET", "/api/v1/search", alice)
	}
}
