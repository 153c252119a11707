package verify_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/verify"
)

// A run exhausts the most suitable limits. It does not exhaust a limit that all callers share, a large
// limit, or a limit that recovers late.
func TestDeployment_Plan(t *testing.T) {
	user := http.Header{"Authorization": {"Bearer token"}}
	for _, c := range []struct {
		name, rules        string
		deployment         verify.Deployment
		exact, quick, path string // targets as "path limit capacity"
	}{
		{"a window is exact, and a bucket recovers first", `
			{"endpoint":"/bucket","limits":{"*":{"requests":60,"window":"1m","algorithm":"token_bucket","burst":5}}},
			{"endpoint":"/window","limits":{"*":{"requests":60,"window":"1m"}}},
			{"endpoint":"/fixed","limits":{"*":{"requests":6,"window":"1m","algorithm":"fixed_window"}}}`,
			verify.Deployment{}, "/window window 60", "/bucket bucket 5", "/bucket"},
		{"parameters have values", `{"endpoint":"/a/{id}/*","limits":{"*":{"requests":6,"window":"1m"}}}`,
			verify.Deployment{}, "/a/weir-verify/weir-verify a 6", "/a/weir-verify/weir-verify a 6", "/a/weir-verify/weir-verify"},
		{"the smallest limit refuses", `{"endpoint":"/a","limits":{"*":[{"name":"hour","requests":50,"window":"1h"},{"name":"minute",` +
			`"requests":9,"window":"1m"}],"global":{"name":"all","requests":70,"window":"1m"}}}`,
			verify.Deployment{}, "/a minute 9", "/a minute 9", "/a"},
		{"not for POST", `{"endpoint":"/a","method":"POST","limits":{"*":{"requests":6,"window":"1m"}}}`, verify.Deployment{}, "", "", ""},
		{"not for all callers", `{"endpoint":"/a","limits":{"global":{"requests":6,"window":"1m"}}}`, verify.Deployment{}, "", "", "/a"},
		{"not large", `{"endpoint":"/a","limits":{"*":{"requests":101,"window":"1m"}}}`, verify.Deployment{}, "", "", "/a"},
		{"not a quota of a day", `{"endpoint":"/a","limits":{"*":{"requests":20,"window":"24h"}}}`, verify.Deployment{}, "", "", "/a"},
		{"unless the user selects it", `{"endpoint":"/a","limits":{"*":{"requests":20,"window":"24h"}}}`, verify.Deployment{Path: "/a"},
			"/a a 20", "/a a 20", "/a"},
		{"not in mode shadow", `{"endpoint":"/a","mode":"shadow","limits":{"*":{"requests":6,"window":"1m"}}}`, verify.Deployment{}, "", "", ""},
		{"not even if the user selects it", `{"endpoint":"/a","mode":"shadow","limits":{"*":{"requests":6,"window":"1m"}}},{"endpoint":"/b",` +
			`"limits":{"*":{"requests":6,"window":"1m"}}}`, verify.Deployment{Path: "/a"}, "", "", ""},
		{"not if it counts failures", `{"endpoint":"/a","limits":{"*":{"requests":6,"window":"1m","count":"failures"}}}`, verify.Deployment{}, "",
			"", "/a"},
		{"the tier of the caller", `{"endpoint":"/a","limits":{"free":{"requests":6,"window":"1m"},"paid":{"requests":60,"window":"1m"}}}`,
			verify.Deployment{Tier: "paid"}, "/a a 60", "/a a 60", "/a"},
		{"the identity of the caller", `{"endpoint":"/a","limits":{"*":[{"name":"a","requests":60,"window":"1m","per":["user"]},` +
			`{"name":"address","requests":6,"window":"1m","per":["ip"],"only":"unverified"}]}}`,
			verify.Deployment{Credential: user}, "/a a 60", "/a a 60", "/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := checkout.ParseRules([]byte(`{"rules":[` + c.rules + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			c.deployment.Rules, c.deployment.URL = parsed, "http://127.0.0.1:1"
			p := c.deployment.Plan()
			if got := described(p.Exact); got != c.exact {
				t.Errorf("exact: got %q, want %q", got, c.exact)
			}
			if got := described(p.Quick); got != c.quick || p.Path != c.path {
				t.Errorf("quick: got %q and path %q, want %q and %q", got, p.Path, c.quick, c.path)
			}
		})
	}
}

func described(t *verify.Target) string {
	if t == nil {
		return ""
	}
	return strings.Join([]string{t.Path, t.Limit, fmt.Sprint(t.Capacity)}, " ")
}
