package rules_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// FuzzRules_Charges searches for a document and a request whose charges a store rejects. A store takes all charges on
// one subject in one step.
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
		r, err := rules.Parse(document, rules.Options{Items: dynamostore.Items{}, Version: 1, OneRegion: true})
		if err != nil {
			return
		}
		caller := caller.Caller{Tier: tier, Rejected: rejected, IP: netip.MustParsePrefix("203.0.113.7/32")}
		if !rejected {
			caller.User, caller.APIKey, caller.Claims = user, key, map[string][]string{"org": {org}}
		}
		limits := map[limiter.Subject]map[limiter.ID]bool{}
		of := rules.EncodedPath(path)
		charges := r.Charges(nil, method, of, caller)
		if explained := r.Explain(rules.Request{Method: method, Path: of, Caller: caller}); !slices.Equal(explained.Charges, charges) ||
			!explains(explained) {
			t.Fatalf("explained: got %+v, want the charges %+v", explained, charges)
		}
		for _, c := range charges {
			if c.Subject == (limiter.Subject{}) || c.Limit.Machine() == nil || c.Cost < 1 {
				t.Fatalf("got charge %+v, want a subject, a valid limit and a cost of at least 1", c)
			}
			if limits[c.Subject] == nil {
				limits[c.Subject] = map[limiter.ID]bool{}
			}
			if limits[c.Subject][c.Limit.ID] {
				t.Fatalf("limit %q of %s: got two charges, want one", c.Limit.Name, c.Subject)
			}
			limits[c.Subject][c.Limit.ID] = true
			if len(limits[c.Subject]) > limiter.MaxCharges {
				t.Fatalf("%s: got %d limits, want at most %d", c.Subject, len(limits[c.Subject]), limiter.MaxCharges)
			}
		}
	})
}
