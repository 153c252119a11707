package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

const lists = `{"tiers":["gold","free","silver"],"overrides":[{"claim:group":"b","limits":{"team":{"requests":7}}}],
	"rules":[{"endpoint":"/",
	"limits":{"*":{"name":"team","requests":5,"window":"1m","per":["claim:group"],"up_to":{"gold":"60%","*":"100%"}},
	"silver":{"name":"pair","requests":6,"window":"1m","per":["claim:group","claim:role"]}}}]}`

// A request counts by each element of a claim that is a list, at most eight, with the numbers of this element. The first
// tier of the document that a list contains is the tier.
func TestRules_Select_lists(t *testing.T) {
	r := parse(t, lists)
	for name, c := range map[string]struct {
		claims    map[string][]string
		tiers     []string
		want      string
		uncounted string
	}{
		"one value":          {claims: map[string][]string{"group": {"a"}}, want: "free: group=a/5"},
		"elements":           {claims: map[string][]string{"group": {"a", "b", "a"}}, want: "free: group=a/5 group=b/7"},
		"tier of a list":     {tiers: []string{"free", "x", "gold"}, want: "gold:"},
		"part of the tier":   {tiers: []string{"gold"}, claims: map[string][]string{"group": {"a", "b"}}, want: "gold: group=a/3 group=b/4"},
		"order of the rules": {tiers: []string{"gold", "free"}, want: "gold:"},
		"no tier in it":      {tiers: []string{"x", "y"}, want: "free:"},
		"absent":             {want: "free:"},
		"cannot count":       {claims: map[string][]string{"group": {}}, want: "free:", uncounted: "group"},
		"an unknown claim":   {claims: map[string][]string{"other": {}, "group": {"a"}}, want: "free: group=a/5"},
		"nine": {claims: map[string][]string{"group": strings.Split("a,c,d,e,f,g,h,i,j", ",")}, uncounted: "group",
			want: "free: group=a/5 group=c/5 group=d/5 group=e/5 group=f/5 group=g/5 group=h/5 group=i/5"},
		"eight": {claims: map[string][]string{"group": strings.Split("a,c,d,e,f,g,h,i", ",")},
			want: "free: group=a/5 group=c/5 group=d/5 group=e/5 group=f/5 group=g/5 group=h/5 group=i/5"},
		"two lists": {claims: map[string][]string{"group": {"a", "b"}, "role": {"x", "y"}}, tiers: []string{"silver", "s"},
			want: "silver: group=a|role=x/6 group=b|role=x/6 group=a|role=y/6 group=b|role=y/6"},
		"two long lists": {claims: map[string][]string{"group": {"a", "b", "c"}, "role": {"x", "y", "z"}}, tiers: []string{"silver", "s"},
			uncounted: "role", want: "silver: group=a|role=x/6 group=b|role=x/6 group=c|role=x/6 group=a|role=y/6 group=b|role=y/6 " +
				"group=c|role=y/6 group=a|role=z/6 group=b|role=z/6"},
	} {
		t.Run(name, func(t *testing.T) {
			q := rules.Request{Method: "GET", Path: rules.EncodedPath("/"), Caller: caller.Caller{User: "u", Claims: c.claims, Tier: "free",
				Tiers: c.tiers}}
			s := r.Select(nil, q)
			got := s.Tier + ":"
			for _, charge := range s.Charges {
				got += fmt.Sprintf(" %s/%d", strings.ReplaceAll(charge.Subject.String(), "claim:", ""), charge.Limit.Rate.Requests)
			}
			if got != c.want || s.Uncounted != c.uncounted {
				t.Errorf("got %s, uncounted %q, want %s, uncounted %q", got, s.Uncounted, c.want, c.uncounted)
			}
			e := r.Explain(q)
			listed := 0
			for _, l := range e.Matches[0].Limits {
				if l.Reason == "" {
					listed++
				}
			}
			if listed != len(s.Charges) || e.Uncounted != c.uncounted {
				t.Errorf("explained %d limits, uncounted %q, want those of Select", listed, e.Uncounted)
			}
			same := func(l rules.Listed, c limiter.Charge) bool { return l.Charge == c }
			if own, complete := r.Own(q); !complete || !slices.EqualFunc(own, s.Charges, same) {
				t.Errorf("the caller's own limits: got %+v (%t), want %+v", own, complete, s.Charges)
			}
		})
	}
}
