package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// otherPart is the part of each batch of requests that the other region gets. The first region then needs share of the other.
const otherPart = 2

var regionsLimit = Row{
	ID:    "regions-limit",
	Claim: "Two regions that share a limit together admit at most the limit.",
	Hand:  "Exceed a limit with `\"regions\": \"shared\"` with requests to both regions at the same time, and count the answers of both that are not 429.",
	Needs: []Need{NeedAnyURL, NeedRegionURL},
	After: []string{"store-decides"},
	Cost:  Cost{Requests: patientCost, Shared: true},
	Check: func(ctx context.Context, s *session) Observation {
		t := s.plan.Shared
		here, there := s.get(s.urls()[0], t.Path), s.get(s.RegionURL, t.Path)
		before := s.patient(ctx, here)
		if before.refused() {
			return skipped(UsedUp)
		}
		if name, _ := limitOf(before.header); name != t.Limit {
			return skipped(fmt.Sprintf("the answer does not show the limit %s (got %s); give the deployed rules with --rules", t.Limit, before.summary()))
		}
		first, other := []answer{before}, []answer(nil)
		round := slices.Concat(slices.Repeat([]request{here}, batch-otherPart), slices.Repeat([]request{there}, otherPart))
		for passed := true; passed && len(first)+len(other)+batch <= t.twice(); {
			answers := s.sendEach(ctx, round)
			passed = slices.ContainsFunc(answers, answer.allowed)
			first, other = append(first, answers[:batch-otherPart]...), append(other, answers[batch-otherPart:]...)
		}
		return t.together(first, other)
	},
}

// together judges the answers of two regions that share the limit.
func (t *Target) together(first, other []answer) Observation {
	all := slices.Concat(first, other)
	degraded, refused, ended := "", false, first[0].ended
	for _, a := range all {
		degraded, refused = cmp.Or(a.degraded(), degraded), refused || a.refused()
		if a.ended.After(ended) {
			ended = a.ended
		}
		switch {
		case !a.decided():
			return failed(fmt.Sprintf("an answer to each of %d requests", len(all)), a.summary(), a.String())
		case t.ends && a.allowed() && a.header.Get(httplimit.ResetField) != first[0].header.Get(httplimit.ResetField):
			return skipped("a window of the limit ended during the test; run again")
		}
	}
	most := t.Capacity
	if !t.ends {
		most += int(ended.Sub(first[0].sent)/t.Refill) + 1
	}
	here, there := passing(first), passing(other)
	expected, observed := fmt.Sprintf("at most %d requests pass", most), fmt.Sprintf("%d of %d pass, %d of them in the other region", here+there, len(all), there)
	if degraded != "" {
		observed += fmt.Sprintf(", some of them without the store (%s: %s)", httplimit.DegradedField, degraded)
	}
	switch {
	case here+there > most:
		return failed(expected, observed, "")
	case !refused:
		return skipped("no limit refused a request: " + observed)
	}
	return passed(expected, observed)
}

// passing returns the number of answers to admitted requests.
func passing(answers []answer) (n int) {
	for _, a := range answers {
		if a.allowed() {
			n++
		}
	}
	return n
}
