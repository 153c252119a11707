package verify

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// domainRequests is the number of requests to the API's own URL between two requests to the domain.
const domainRequests = 5

var customDomain = Row{
	ID:    "custom-domain",
	Claim: "A request to the custom domain counts on the same limit as one to the API's own URL.",
	Hand:  "`for u in $URL $DOMAIN_URL; do curl -si $u/api/v1/search | grep -i ratelimit-remaining; done`: the second value is lower",
	Needs: []Need{NeedDomainURL, NeedAnyURL},
	After: []string{"store-decides"},
	Cost:  Cost{Requests: countingCost + ampleCost + domainRequests + 1},
	Check: func(ctx context.Context, s *session) Observation {
		const expected = "the fields of the limit, and one limit for both URLs"
		domain := s.get(s.DomainURL, s.plan.Path)
		before := s.ample(ctx, domain, countingCost+domainRequests+1)
		switch {
		case before.refused():
			return skipped(UsedUp)
		case before.status == http.StatusUnauthorized && len(s.Credential) == 0:
			return skipped(noCredential)
		}
		if wrong := wrongFields(before.header); before.err != nil || len(wrong) > 0 {
			return failed(expected, before.summary()+" without the fields; the path of the mapping must be in BASE_PATH", before.String())
		}
		others := slices.Repeat([]request{s.get(s.urls()[0], s.plan.Path)}, domainRequests)
		return s.together(ctx, domain, before, others, "requests to the other URL", expected, "both")
	},
}

// together tests that other requests count on the limit of r, whose answer is before. It sends them, and r again. what
// names the other requests.
func (s *session) together(ctx context.Context, r request, before answer, others []request, what, expected, observed string) Observation {
	if before.remaining() <= countingCost+len(others) {
		return skipped(fmt.Sprintf("only %d of the limit remain; run again later", before.remaining()))
	}
	if reason := s.notCounting(ctx); reason != "" {
		return skipped(reason)
	}
	for _, a := range s.sendEach(ctx, others) {
		if !a.decided() {
			return failed(expected, a.summary(), a.String())
		}
	}
	after, regained := s.send(ctx, r), 0
	if t := s.plan.Quick; t != nil {
		regained = int(after.ended.Sub(before.sent)/t.Refill) + 1
	}
	switch {
	case !after.decided():
		return failed(expected, after.summary(), after.String())
	case regained >= len(others): // the result would be the same if these requests had a limit of their own
		return skipped("the limit regained requests during the test; run again")
	case after.remaining() > before.remaining()-1-len(others)+regained:
		return failed(expected, fmt.Sprintf("%d of the limit remain after %d %s, and %d before", after.remaining(), len(others), what, before.remaining()), after.String())
	}
	return passed(expected, observed)
}
