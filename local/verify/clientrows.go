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
	"github.com/weir-limits/weir/limiter/caller"
)

// The reasons to skip a row because of the credential.
const (
	noAPIKeys      = "API keys identify no caller (API_KEY_HEADER is none)"
	badCredentials = "a limit on bad credentials is used up; run again later"
)

const authorization = "Authorization"

// with returns a request whose only credential is a value of a field.
func (s *session) with(field, value string) request {
	return request{method: http.MethodGet, path: s.plan.Path, header: http.Header{http.CanonicalHeaderKey(field): {value}}}
}

// unauthorized tests the answers to bad credentials. A deployment without an issuer ignores tokens.
func (s *session) unauthorized(ctx context.Context) Result {
	const expected = "401 with a challenge and a problem"
	var tested []string
	for _, c := range []struct{ name, field, value string }{{"an API key", s.APIKeyHeader, "weir_verify"},
		{"a token", authorization, "Bearer weir-verify"}} {
		if c.field == contract.NoAPIKeys {
			continue
		}
		a := s.send(ctx, s.with(c.field, c.value))
		rejected := rejects(a, expected)
		switch {
		case a.allowed() && c.field == authorization && s.Credential.Get(authorization) == "":
			continue // no issuer
		case rejected.Outcome != Pass:
			return rejected
		case !strings.HasPrefix(a.header.Get("WWW-Authenticate")+a.header.Get("X-Amzn-Remapped-Www-Authenticate"), "Bearer"):
			return failed(expected, "no WWW-Authenticate", a)
		case a.problem() != "unauthorized" || a.header.Get("Content-Type") != problemType:
			return failed(expected, "no problem unauthorized", a)
		}
		tested = append(tested, c.name)
	}
	if len(tested) == 0 {
		return skipped(noAPIKeys + ", and the deployment has no issuer")
	}
	return passed("401 to " + strings.Join(tested, " and "))
}

// rejects tests that an answer is 401.
func rejects(a answer, expected string) Result {
	switch {
	case a.refused():
		return skipped(badCredentials)
	case a.status != http.StatusUnauthorized:
		return failed(expected, a.summary()+" to an invalid credential", a)
	}
	return passed("401")
}

func (s *session) validKey(ctx context.Context) Result {
	if s.APIKeyHeader == contract.NoAPIKeys {
		return skipped(noAPIKeys)
	}
	return s.accepts(ctx, s.with(s.APIKeyHeader, s.APIKey), s.with(s.APIKeyHeader, caller.NewAPIKey()))
}

// validToken changes a character of the signature. The last character can have bits that no decoder reads.
func (s *session) validToken(ctx context.Context) Result {
	at, other := max(0, len(s.Token)-8), "A"
	if s.Token[at:at+1] == other {
		other = "B"
	}
	return s.accepts(ctx, s.with(authorization, "Bearer "+s.Token), s.with(authorization, "Bearer "+s.Token[:at]+other+s.Token[at+1:]))
}

// accepts tests a valid credential, and a similar one. A deployment that ignores the credential answers both like an
// anonymous request.
func (s *session) accepts(ctx context.Context, valid, other request) Result {
	const expected = "an admitted request, and 401 to a similar credential"
	a := s.patient(ctx, valid)
	switch {
	case a.refused():
		return skipped(UsedUp)
	case !a.allowed():
		return failed(expected, a.summary()+" to the valid credential", a)
	}
	return rejects(s.send(ctx, other), expected)
}

// preflights is the number of preflights that a test sends between two requests.
const preflights = 3

func (s *session) preflight(ctx context.Context) Result {
	before := s.send(ctx, s.get(s.plan.Path))
	if !before.allowed() || before.remaining() < 1 {
		return skipped(UsedUp)
	}
	for _, p := range s.sendEach(ctx, slices.Repeat([]request{{method: http.MethodOptions, path: s.plan.Path, header: http.Header{
		"Origin": {cmp.Or(s.Origin, "https://weir-verify.example")}, "Access-Control-Request-Method": {http.MethodGet},
	}}}, preflights)) {
		switch {
		case p.err != nil || p.status >= http.StatusInternalServerError || p.refused():
			return failed("an answer to a preflight", p.summary(), p)
		case p.header.Get("Access-Control-Allow-Origin") == "":
			return skipped("the deployment permits no pages of other origins, or not of this one; choose another with --origin")
		}
	}
	after, expected := s.send(ctx, s.get(s.plan.Path)), fmt.Sprintf("%d of the limit remain", before.remaining()-1)
	if !after.allowed() || after.remaining() < before.remaining()-1 {
		return failed(expected, strconv.Itoa(after.remaining()), after)
	}
	return passed(expected)
}

// The reasons why a route is not tested.
const (
	routeExempt  = "exempt"
	routeFree    = "no limit in the rules"
	routeChanges = "needs --write"
	routeMissing = "no value of a parameter (--value)"
)

// untested returns the reason why a run sends no request to a route, or "".
func (d *Deployment) untested(r Route) string {
	if r.Path == "" {
		return routeMissing
	}
	switch charge, exempt := d.first(r.Method, r.Path); {
	case exempt:
		return routeExempt
	case charge == nil:
		return routeFree
	case r.Method != http.MethodGet && r.Method != http.MethodHead && !d.Write:
		return routeChanges
	}
	return ""
}

func (s *session) eachRoute(ctx context.Context) Result {
	untested := map[string][]string{} // routes by reason
	var sent []Route
	var requests []request
	for _, r := range s.Routes {
		if reason := s.untested(r); reason != "" {
			untested[reason] = append(untested[reason], r.String())
			continue
		}
		sent = append(sent, r)
		requests = append(requests, request{method: r.Method, path: r.Path, header: s.Credential})
	}
	var wrong []string
	var example answer
	right := 0
	for i, a := range s.sendEach(ctx, requests) {
		switch problem := wrongFields(a.header); {
		case s.closed(a):
			return skipped(noCredential)
		case a.problem() == subjectBusy:
			untested[subjectBusy] = append(untested[subjectBusy], sent[i].String())
		case a.err != nil || a.status >= http.StatusInternalServerError || len(problem) > 0:
			wrong, example = append(wrong, fmt.Sprintf("%s: %s, %s", sent[i], a.summary(), strings.Join(problem, ", "))), a
		default:
			right++
		}
	}
	var observed strings.Builder
	fmt.Fprintf(&observed, "%d of %d routes", right, len(s.Routes))
	for _, reason := range []string{routeExempt, routeFree, routeChanges, routeMissing, subjectBusy} {
		if len(untested[reason]) > 0 {
			fmt.Fprintf(&observed, "; %s: %s", reason, strings.Join(untested[reason], ", "))
		}
	}
	const expected = "the fields of the limit in the answer of each route"
	switch {
	case len(wrong) > 0:
		return failed(expected, strings.Join(append(wrong, observed.String()), "; "), example)
	case right == 0:
		return skipped(observed.String())
	}
	return passed(observed.String())
}
