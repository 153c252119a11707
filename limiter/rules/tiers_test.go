package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// A note reports a tier that is similar to a tier of more rules, to the default tier or to "global". A document that
// declares its tiers has no such note.
func TestRules_SimilarTiers(t *testing.T) {
	for names, want := range map[string]string{
		"free paid enterprise global *": "",
		"free paid piad":                `rules[2].limits.piad: the tier "piad" is similar to "paid" (rules[1].limits.paid)`,
		"piad free paid paid":           `rules[0].limits.piad: the tier "piad" is similar to "paid" (rules[2].limits.paid)`,
		"piad piad paid paid":           `rules[2].limits.paid: the tier "paid" is similar to "piad" (rules[0].limits.piad)`,
		"fre fre":                       `rules[0].limits.fre: the tier "fre" is similar to "free" (the default_tier)`,
		"globl free":                    `rules[0].limits.globl: the tier "globl" is similar to "global" (the limits of all callers together)`,
		"GLOBAL free":                   `rules[0].limits.GLOBAL: the tier "GLOBAL" is similar to "global" (the limits of all callers together)`,
		"gold Gold bold":                `rules[1].limits.Gold: the tier "Gold" is similar to "gold" (rules[0].limits.gold)|rules[2].limits.bold: the tier "bold" is similar to "gold" (rules[0].limits.gold)`,
		"premium premum":                `rules[1].limits.premum: the tier "premum" is similar to "premium" (rules[0].limits.premium)`,
		"paid-plus paid_plus":           `rules[1].limits.paid_plus: the tier "paid_plus" is similar to "paid-plus" (rules[0].limits.paid-plus)`,
		"paid-plus paidplus":            `rules[1].limits.paidplus: the tier "paidplus" is similar to "paid-plus" (rules[0].limits.paid-plus)`,
		"A a":                           `rules[1].limits.a: the tier "a" is similar to "A" (rules[0].limits.A)`,
		"pro prd s m l xl xxl":          "",
		"tier1 tier2 tier12 tier21":     "",
		"basic basic2":                  "",
		"team-s team-m team-l":          "",
		"gold dogl goldie":              "",
		"standard standing":             "",
	} {
		var list []string
		for i, name := range strings.Fields(names) {
			list = append(list, rule(fmt.Sprintf("/e%d", i), "", `"`+name+`":`+limit))
		}
		text := document(list...)
		r := parse(t, text)
		var got []string
		for _, n := range r.SimilarTiers() {
			message, rest, _ := strings.Cut(n.Message, "; ")
			if n.Line != 1 || rest != `if it is misspelled, no caller gets these limits; if both are right, list all tiers in "tiers"` || !slices.Contains(r.Notes(), n) {
				t.Errorf("%s: got %+v, want a note with its line and a remedy", names, n)
			}
			got = append(got, n.Path+": "+message)
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", names, got, want)
		}
		declared := strings.Replace(text, "{", `{"tiers":["`+strings.Join(append(r.Tiers(), "basis"), `","`)+`"],"default_tier":"basis",`, 1)
		if r := parse(t, declared); len(r.SimilarTiers()) != 0 || !r.DeclaresTiers() {
			t.Errorf("%s, declared: got %v, want no notes", names, r.SimilarTiers())
		}
	}
}

// A document can have any number of similar tiers: each has at most one note.
func TestRules_SimilarTiers_many(t *testing.T) {
	r := parse(t, document(fill(1000, func(i int) string { return rule(fmt.Sprintf("/a%d", i), "", `"`+word(i)+`":`+limit) })))
	if n := len(r.SimilarTiers()); n != 999 {
		t.Errorf("1000 tiers, each similar to another one: got %d notes, want 999", n)
	}
}

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
	if got, want := fmt.Sprint(r.CheckTier("trail")), `tier: got "trail", want a tier of "tiers": Free, free, paid, piad or trial (did you mean "trial"?); default_tier free decides`; got != want {
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
