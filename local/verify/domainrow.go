package verify

import (
	"context"
	"fmt"
	"net/http"
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
		if before.remaining() <= countingCost+domainRequests {
			return skipped(fmt.Sprintf("only %d of the limit remain; run again later", before.remaining()))
		}
		if reason := s.notCounting(ctx); reason != "" {
			return skipped(reason)
		}
		s.sendAll(ctx, s.get(s.urls()[0], s.plan.Path), domainRequests)
		after := s.send(ctx, domain)
		regained := 0
		if t := s.plan.Quick; t != nil {
			regained = int(after.ended.Sub(before.sent)/t.Refill) + 1
		}
		switch {
		case !after.decided():
			return failed(expected, after.summary(), after.String())
		case regained >= domainRequests: // the result would be the same if the domain had a limit of its own
			return skipped("the limit regained requests during the test; run again")
		case after.remaining() > before.remaining()-1-domainRequests+regained:
			return failed(expected, fmt.Sprintf("%d of the limit remain after %d requests to the other URL, and %d before", after.remaining(), domainRequests, before.remaining()), after.String())
		}
		return passed(expected, "both")
	},
}
