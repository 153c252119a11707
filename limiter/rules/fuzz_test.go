package rules_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// FuzzRules_Charges looks for a document and a request that break each other: whatever is
// charged, a store can take in one step for each subject.
func FuzzRules_Charges(f *testing.F) {
	files, err := filepath.Glob("testdata/good/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(document, "GET", "/api/v1/search", "free", "alice", "", "acme", false)
		f.Add(document, "HEAD", "/api//v1/%69tems/7/", "pro", "", "key", "", false)
		f.Add(document, "POST", "*", "", "", "", "", true)
		f.Add(document, "", "/..", "gold", "al|ice", "k=1", "\x00", false)
	}
	f.Fuzz(func(t *testing.T, document []byte, method, path, tier, user, key, org string, rejected bool) {
		r, err := rules.Parse(document, rules.Options{Version: 1})
		if err != nil {
			return
		}
		caller := limiter.Caller{Tier: tier, Rejected: rejected, IP: netip.MustParsePrefix("203.0.113.7/32")}
		if !rejected {
			caller.User, caller.APIKey, caller.Claims = user, key, map[string]string{"org": org}
		}
		limits := map[limiter.Subject]map[limiter.ID]bool{}
		charges := r.Charges(nil, method, path, caller)
		if explained := r.Explain(method, path, caller); !slices.Equal(explained.Charges, charges) || !explains(explained) {
			t.Fatalf("explained as %+v, charged %+v", explained, charges)
		}
		for _, c := range charges {
			if c.Subject == (limiter.Subject{}) || c.Limit.Machine() == nil || c.Cost < 1 {
				t.Fatalf("charge %+v", c)
			}
			if limits[c.Subject] == nil {
				limits[c.Subject] = map[limiter.ID]bool{}
			}
			if limits[c.Subject][c.Limit.ID] {
				t.Fatalf("limit %q of %s is charged twice", c.Limit.Name, c.Subject)
			}
			limits[c.Subject][c.Limit.ID] = true
			if len(limits[c.Subject]) > limiter.MaxCharges {
				t.Fatalf("%d limits on %s", len(limits[c.Subject]), c.Subject)
			}
		}
	})
}

// FuzzNormalizePath_idempotent looks for a path whose normal form is spelled in two ways:
// what decodes to nothing more to decode stays as it is.
func FuzzNormalizePath_idempotent(f *testing.F) {
	for _, seed := range []string{"/", "", "a//b/", "/%2541", "/%2e/%2e%2e/..", "/%252e", "/%25%34%31", "/a%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for range len(path) { // each round decodes one layer, and makes it shorter
			next := rules.NormalizePath(path)
			if next == path {
				return
			}
			path = next
		}
		if next := rules.NormalizePath(path); next != path && rules.NormalizePath(next) != next {
			t.Errorf("%q is normalized to %q, and never rests", path, next)
		}
	})
}
