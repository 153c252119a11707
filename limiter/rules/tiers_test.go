package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// A declared tier is known even if no rule names it: it gets the limits under "*", not those of the default tier.
func TestRules_Tier_declared(t *testing.T) {
	r := load(t, "testdata/good/tiers.json")
	if got, want := r.Tiers(), []string{"Free", "free", "paid", "piad", "trial"}; !slices.Equal(got, want) {
		t.Errorf("tiers: got %q, want %q", got, want)
	}
	for tier, want := range map[string]string{"trial": "user:alice a 1", "free": "user:alice a 1", "other": "user:alice a 1"} {
		caller := alice
		caller.Tier = tier
		charges := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller)
		if got := show(charges); got != want || (charges[0].Limit.Rate.Requests == 2) != (tier == "trial") {
			t.Errorf("%s: got %s of %d requests, want %s; only trial has the 2 requests of *", tier, got, charges[0].Limit.Rate.Requests, want)
		}
	}
	if got, want := fmt.Sprint(r.CheckTier("trail")), `tier: got "trail", want a tier of "tiers": Free, free, paid, piad or trial (did you `+
		`mean "trial"?); default_tier free decides`; got != want {
		t.Errorf("check of a tier: got %s, want %s", got, want)
	}
	if err := r.CheckTier("trial"); err != nil {
		t.Errorf("check of a declared tier: got error %v, want none", err)
	}
	const none = `rules[1].limits: this rule has no limit for callers of tier Free, free, piad or trial`
	if notes := fmt.Sprint(r.Notes()); !strings.Contains(notes, none) {
		t.Errorf("notes: got %s, want %s", notes, none)
	}
}
