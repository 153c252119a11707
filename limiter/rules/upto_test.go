package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A tier with 100 % is refused only when the whole limit is used. A tier with less is admitted only while less than its part
// is used, and answers have the fields of its part. Any other tier, also none, has the part of "*" or of the default tier.
func TestRules_upTo(t *testing.T) {
	r := load(t, "testdata/good/up_to.json")
	parts := map[string]int64{"free": 12, "paid": 18, "gold": 20, "unknown": 12, "": 12}
	for seed := range uint64(50) {
		random, used := rand.New(rand.NewPCG(seed, 1)), int64(0)
		l := storetest.Must(limiter.New(struct{ limiter.Store }{storetest.Must(memstore.New(memstore.Options{}))}, limiter.Options{}))
		for range 40 {
			tier := []string{"free", "paid", "gold", "unknown", ""}[random.IntN(5)]
			charges := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: "alice", Tier: tier})
			d := storetest.Must(l.Take(t.Context(), start, charges))
			if want := used+2 <= parts[tier]; d.Allowed != want || !want && d.Capacity != parts[tier] {
				t.Fatalf("seed %d, tier %q: got %+v after %d, want allowed %t and %d", seed, tier, d, used, want, parts[tier])
			}
			if d.Allowed {
				used += 2
			}
		}
	}
	for tier, want := range map[string][2]int64{"free": {12, 10}, "paid": {18, 20}} {
		charges := r.Charges(nil, "GET", rules.EncodedPath("/b"), caller.Caller{Tier: tier})
		if all, burst := charges[0].Limit.MaxCost(), charges[1].Limit.MaxCost(); all != want[0] || burst != want[1] ||
			charges[1].Limit.Rate.Requests != 100 {
			t.Errorf("%s: got parts of %d and %d, want %d of the window and a burst of %d, at the rate of the limit", tier, all, burst, want[0],
				want[1])
		}
	}
	large := []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"requests":3000,"window":"1s","up_to":{"*":"50%"}}}}]}`)
	busy := storetest.Must(rules.Parse(large, rules.Options{LeaseAbove: rules.LeaseAboveDynamoDB}))
	charges := busy.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{})
	if len(busy.Notes()) == 0 || charges[0].Limit.Spread != (limiter.Spread{}) {
		t.Errorf("got the spread %+v and the notes %v, want none, and a note on subject_busy", charges[0].Limit.Spread, busy.Notes())
	}
}

// A caller's own rate keeps the burst of the limit, which bounds the debt that a known cost leaves. A list without a tier has the
// whole limit, which is a part of 100 %.
func TestRules_upTo_override(t *testing.T) {
	r := parse(t, `{"rules":[{"endpoint":"/a","limits":{"*":{"name":"all","requests":100,"window":"1m","algorithm":"token_bucket","burst":20,`+
		`"per":["user"],"up_to":{"paid":"50%","*":"80%"}}}}],"overrides":[{"user":"alice","limits":{"all":{"requests":1000}}}]}`)
	for tier, want := range map[string]int64{"paid": 10, "free": 16, "": 20} {
		l := r.Of(rules.Request{Caller: caller.Caller{User: "alice", Tier: tier}}, limiter.User("alice"))[0].Charge.Limit
		if l.Rate.Requests != 1000 || l.Rate.Burst != want || l.Rate.Of != 20 || l.Rate.Least != 10 || l.Rate.Percent != 5*want {
			t.Errorf("%q: got %+v, want 1000 requests and a burst of %d, a part of 20", tier, l.Rate, want)
		}
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
