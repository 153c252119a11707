package verify

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

const refuse = "`for i in $(seq 80); do curl -si $URL/api/v1/items/1; done | grep -A14 '^HTTP.* 429' | head -20`"

var notCached = Row{
	ID:    "rest-not-cached",
	Claim: "The REST API does not cache the authorizer's result: it counts each request.",
	Hand:  "`for i in 1 2 3; do curl -si $URL/api/v1/search | grep -i ratelimit-remaining; done`",
	Needs: []Need{NeedREST},
	After: []string{"store-decides", "rest-allowed-fields"},
	Cost:  Cost{Burst: true},
	Check: func(ctx context.Context, s *session) Observation {
		b := s.first(ctx)
		if b.reason != "" {
			return skipped(b.reason)
		}
		const expected = "another X-RateLimit-Remaining in each answer"
		values, refusals := map[string]bool{}, 0
		for _, a := range b.answers {
			if a.allowed() {
				values[a.header.Get(httplimit.RemainingField)] = true
			}
			if a.refused() {
				refusals++
			}
		}
		if len(values)+refusals == 0 {
			return skipped("no answer of the burst shows a decision (got " + b.answers[0].summary() + ")")
		}
		if only := b.before.header.Get(httplimit.RemainingField); len(values) == 1 && values[only] {
			return failed(expected, "the same value in all answers", b.before.String())
		}
		return passed(expected, fmt.Sprintf("%d different values, %d refusals", len(values), refusals))
	},
}

var restRefusedRows = []Row{
	refusal("rest-refused-status", "The status of a refusal is 429 and not 403.", refuse, func(_ *session, a answer) Observation {
		if a.status != http.StatusTooManyRequests {
			return failed("429", strconv.Itoa(a.status), a.String())
		}
		return passed("429", "429")
	}),
	refusal("rest-refused-fields", "A refusal has the fields of the limit, which the REST API maps from `context.authorizer.*`.", refuse, func(_ *session, a answer) Observation {
		return verdict("Retry-After and the fields of the limit", described(a.header), wrongRefusal(a.header), a)
	}),
	refusal("rest-refused-content-type", "A refusal has the changed `Content-Type`.", refuse, func(_ *session, a answer) Observation {
		if got := a.header.Get("Content-Type"); got != problemType {
			return failed(problemType, got, a.String())
		}
		return passed(problemType, problemType)
	}),
	refusal("rest-refused-body", "The body of a refusal is JSON with the numbers and texts of the limit.", "`curl -s $URL/api/v1/search | python3 -m json.tool` over the limit", func(s *session, a answer) Observation {
		name, requests := limitOf(s.burst.before.header)
		return verdict(fmt.Sprintf("a problem with limit %d of policy %q", requests, name), a.problem(), wrongBody(a.body, name, requests), a)
	}),
	refusal("rest-missing-value", "If a value is missing in the context, the refusal has no field for it, such as `Weir-Degraded`.", refuse, func(_ *session, a answer) Observation {
		if values, ok := a.header[httplimit.DegradedField]; ok && a.degraded() == "" {
			return failed("no "+httplimit.DegradedField, fmt.Sprintf("%s %q", httplimit.DegradedField, values), a.String())
		}
		return passed("no "+httplimit.DegradedField, "none on "+a.summary())
	}),
}

// refusal returns a row about a refusal of the REST API.
func refusal(id, claim, hand string, check func(*session, answer) Observation) Row {
	return Row{ID: id, Claim: claim, Hand: hand, Needs: []Need{NeedREST}, Cost: Cost{Burst: true}, Check: func(ctx context.Context, s *session) Observation {
		b := s.first(ctx)
		if b.reason != "" {
			return skipped(b.reason)
		}
		a, ok := b.refusal()
		if !ok {
			return skipped("no limit refused a request")
		}
		return check(s, a)
	}}
}

// A fault can take effect late, so the row repeats its request.
const (
	faultTries = 4
	faultPause = 5 * time.Second
)

var authorizerFailure = Row{
	ID:    "rest-authorizer-failure",
	Claim: "If the authorizer fails, the status is 503 and not 500.",
	Hand:  "`aws lambda put-function-concurrency --reserved-concurrent-executions 0 --function-name …`, then `curl -i $URL/api/v1/search`",
	Needs: []Need{NeedREST, NeedFaults},
	Cost:  Cost{Requests: faultTries},
	Check: func(ctx context.Context, s *session) Observation {
		return s.whileBroken(ctx, s.get(s.URL, s.plan.Path), func(a answer) Observation {
			if a.status != http.StatusServiceUnavailable || a.header.Get(httplimit.RetryAfterField) == "" {
				return failed("503 with Retry-After", a.summary(), a.String())
			}
			s.broke = true
			return passed("503 with Retry-After", "503")
		})
	},
}

// whileBroken makes the authorizer fail, and restores it after the test. The test gets the answer to a request that the
// authorizer did not decide, or to the last one. It sends at most faultTries requests.
func (s *session) whileBroken(ctx context.Context, r request, test func(answer) Observation) (o Observation) {
	restore, err := s.Faults.BreakAuthorizer(ctx)
	if err != nil {
		return skipped("the authorizer cannot be made to fail: " + err.Error())
	}
	defer func() {
		if err := restore(context.WithoutCancel(ctx)); err != nil {
			o = failed("a restored authorizer", err.Error(), "")
		}
	}()
	a := s.send(ctx, r)
	for try := 1; try < faultTries && a.decided() && s.wait(ctx, faultPause, "the authorizer still answers") == nil; try++ {
		a = s.send(ctx, r)
	}
	return test(a)
}

// authorizerMetric follows authorizerFailure, whose requests the metric counts.
var authorizerMetric = func() Row {
	r := byAccount("authorizer-metric", "A metric filter of the access log counts the requests whose authorizer failed.", "the alarm `authorizer-failed`, after the requests of `rest-authorizer-failure`", NeedREST, NeedFaults)
	check := r.Check
	r.Check = func(ctx context.Context, s *session) Observation {
		if !s.broke {
			return skipped("the authorizer was not made to fail")
		}
		return check(ctx, s)
	}
	return r
}()
