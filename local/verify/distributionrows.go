package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
)

// distribution is a CloudFront distribution in front of an API.
type distribution struct {
	api         surface
	need        Need
	url, direct func(*Deployment) string // of the distribution, and of the API itself
}

var (
	restDistribution = distribution{restAPI, NeedRESTDistribution, func(d *Deployment) string { return d.RESTDistributionURL }, func(d *Deployment) string { return cmp.Or(d.DirectURL, d.URL) }}
	httpDistribution = distribution{httpAPI, NeedHTTPDistribution, func(d *Deployment) string { return d.HTTPDistributionURL }, func(d *Deployment) string { return cmp.Or(d.DirectHTTPURL, d.HTTPURL) }}
)

// distributionRows are the rows about requests through a distribution that admit each request.
func distributionRows() (rows []Row) {
	for _, d := range []distribution{restDistribution, httpDistribution} {
		rows = append(rows, d.answers(), d.uncached(), d.forged(), d.around())
	}
	return rows
}

func (d distribution) row(name string) string { return d.api.id + "-distribution-" + name }

// fieldCloudFront is in each answer of a distribution.
const fieldCloudFront = "X-Amz-Cf-Id"

func (d distribution) answers() Row {
	return Row{
		ID:    d.row("answers"),
		Claim: fmt.Sprintf("A request through the distribution of %s is decided.", d.api.name),
		Hand:  "`curl -si $DISTRIBUTION_URL/api/v1/search | grep -i -e ratelimit -e x-amz-cf-id`",
		Needs: []Need{d.need},
		Cost:  Cost{Requests: patientCost},
		Check: func(ctx context.Context, s *session) Observation {
			a := s.patient(ctx, s.get(d.url(s.Deployment), s.plan.Path))
			const expected = "an answer of a distribution with the fields of the limit"
			switch {
			case a.err == nil && a.header.Get(fieldCloudFront) == "":
				return failed(expected, a.summary()+" without "+fieldCloudFront, a.String())
			case a.refused():
				return passed(expected, a.summary())
			case a.status == http.StatusUnauthorized && len(s.Credential) == 0:
				return skipped(noCredential)
			case a.err != nil || a.status >= http.StatusInternalServerError:
				return failed(expected, a.summary(), a.String())
			}
			return verdict(expected, described(a.header), wrongFields(a.header), a)
		},
	}
}

// noRoute is a path of no route, which API Gateway answers with an error itself.
const noRoute = "/weir-verify-no-route"

func (d distribution) uncached() Row {
	return Row{
		ID:    d.row("uncached"),
		Claim: fmt.Sprintf("The distribution of %s keeps neither answers nor errors: %s answers each request.", d.api.name, d.api.name),
		Hand:  "`for i in 1 2; do curl -si $DISTRIBUTION_URL/no-such-path | grep -i -e apigw -e '^age'; done`: two ids, and no `age`; `for i in 1 2 3 4 5 6 7 8; do curl -si \"$DISTRIBUTION_URL/api/v1/search?i=$i\" | grep -i -e apigw & done; wait`: eight ids",
		Needs: []Need{d.need},
		After: []string{d.row("answers")},
		Cost:  Cost{Requests: 4 + simultaneous},
		Check: func(ctx context.Context, s *session) Observation {
			if o := s.collapse(ctx, s.get(d.url(s.Deployment), s.plan.Path)); o.Outcome != Pass {
				return o
			}
			for _, path := range []string{s.plan.Path, noRoute} {
				r := s.get(d.url(s.Deployment), path)
				if o := differ(s.send(ctx, r), s.send(ctx, r)); o.Outcome != Pass {
					return o
				}
			}
			return differing
		},
	}
}

// simultaneous is the number of requests that CloudFront would collapse.
const simultaneous = 8

// collapse sends requests at the same time. They differ in their query strings, which CloudFront's key lacks, so it
// answers them all with one answer unless this has a Cache-Control such as private.
func (s *session) collapse(ctx context.Context, r request) Observation {
	separator := "?"
	if strings.Contains(r.path, "?") {
		separator = "&"
	}
	requests := slices.Repeat([]request{r}, simultaneous)
	for i := range requests {
		requests[i].path += separator + "weir-verify=" + strconv.Itoa(i)
	}
	answers := s.sendEach(ctx, requests)
	for i := range answers {
		for _, before := range answers[:i] {
			if o := differ(before, answers[i]); o.Outcome != Pass {
				return o
			}
		}
	}
	return differing
}

// differing is the observation of answers that the API gave itself.
var differing = passed("another id of API Gateway in each answer", "different ids")

// differ reports whether the API gave both answers: API Gateway gives each its own id.
func differ(a, b answer) Observation {
	id := func(a answer) string { return cmp.Or(a.header.Get(fieldREST), a.header.Get(fieldHTTP)) }
	switch {
	case id(a) == "" || id(b) == "":
		return failed(differing.Expected, b.summary()+" without an id", b.String())
	case id(a) == id(b):
		return failed(differing.Expected, b.summary()+" with the id of the answer before", b.String())
	}
	return differing
}

// forgeries is the number of requests with forged fields.
const forgeries = 5

func (d distribution) forged() Row {
	return Row{
		ID:    d.row("forged"),
		Claim: fmt.Sprintf("Through the distribution of %s, a client cannot choose its address with fields of its request.", d.api.name),
		Hand:  "`for i in 1 2 3; do curl -si -H \"Weir-Viewer-Address: 192.0.2.$i\" $DISTRIBUTION_URL/api/v1/search | grep -i ratelimit-remaining; done`: the value decreases",
		Needs: []Need{d.need},
		After: []string{d.row("answers"), "store-decides"},
		Cost:  Cost{Requests: countingCost + ampleCost + forgeries + 1},
		Check: func(ctx context.Context, s *session) Observation { return s.forge(ctx, d.url(s.Deployment)) },
	}
}

func (d distribution) around() Row {
	return Row{
		ID:    d.row("around"),
		Claim: fmt.Sprintf("A request to %s that does not pass its distribution is refused, or decided by its source address, whatever its fields.", d.api.name),
		Hand:  fmt.Sprintf("`for i in 1 2 3; do curl -si -H \"Weir-Viewer-Address: 192.0.2.$i\" %s/api/v1/search | grep -i -e direct_request -e ratelimit-remaining; done`: the value decreases, or each request is refused", d.api.variable),
		Needs: []Need{d.api.need, d.need},
		After: []string{"store-decides", d.api.id + "-allowed-fields"},
		Cost:  Cost{Requests: 1 + countingCost + ampleCost + forgeries + 1},
		Check: func(ctx context.Context, s *session) Observation {
			url := d.direct(s.Deployment)
			a := s.send(ctx, request{method: http.MethodGet, url: url, path: s.plan.Path, header: forgery("192.0.2.1")})
			if a.problem() == directRequest {
				return passed("a refusal, or one limit for all requests", a.summary())
			}
			return s.forge(ctx, url)
		},
	}
}

// directRequest is the problem of a refused request around the distribution.
const directRequest = "direct_request"

// forge sends requests without a credential, whose limit counts by the address.
func (s *session) forge(ctx context.Context, url string) Observation {
	const expected = "one limit for all requests, whatever fields they have"
	plain := request{method: http.MethodGet, url: url, path: s.plan.Path}
	before := s.ample(ctx, plain, countingCost+forgeries+1)
	switch {
	case before.refused():
		return skipped(UsedUp)
	case before.status == http.StatusUnauthorized:
		return skipped("the deployment requires a credential, so no limit of this endpoint counts by the address")
	case !before.decided():
		return failed(expected, before.summary(), before.String())
	}
	forged := make([]request, forgeries)
	for i := range forged {
		forged[i] = plain
		forged[i].header = forgery(fmt.Sprintf("192.0.2.%d", i+1)) // RFC 5737: an address of nobody
	}
	return s.together(ctx, plain, before, forged, "forged requests", expected, "one limit")
}

// forgery returns fields that name another address.
func forgery(address string) http.Header {
	h := http.Header{}
	for name, value := range map[string]string{
		contract.OriginSecretField: "weir-verify", contract.ViewerAddressField: address, contract.CloudFrontAddressField: address + ":443",
		"X-Forwarded-For": address, "X-Real-IP": address, "True-Client-IP": address, "Forwarded": "for=" + address,
	} {
		h.Set(name, value)
	}
	return h
}

// distributionFailure follows authorizerFailure. An answer 503 reaches only the client whose request failed.
var distributionFailure = Row{
	ID:    restDistribution.row("failure"),
	Claim: "The distribution of the REST API does not keep a 503: the API answers each request.",
	Hand:  "`aws lambda put-function-concurrency --reserved-concurrent-executions 0 --function-name …`, then `curl -i $DISTRIBUTION_URL/api/v1/search` twice: two values of `x-amz-apigw-id`",
	Needs: []Need{NeedRESTDistribution, NeedFaults},
	After: []string{restDistribution.row("answers"), "rest-authorizer-failure"},
	Cost:  Cost{Requests: faultTries + 1},
	Check: func(ctx context.Context, s *session) Observation {
		r := s.get(s.RESTDistributionURL, s.plan.Path)
		return s.whileBroken(ctx, r, func(a answer) Observation {
			if a.status != http.StatusServiceUnavailable {
				return failed("503 while the authorizer fails", a.summary(), a.String())
			}
			return differ(a, s.send(ctx, r))
		})
	},
}
