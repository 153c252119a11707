package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-limits/weir/limiter/httplimit"
)

type surface struct {
	id, name, variable string
	need               Need
	url                func(*Deployment) string
}

var (
	restAPI     = surface{"rest", "the REST API", "$URL", NeedREST, func(d *Deployment) string { return d.URL }}
	httpAPI     = surface{"http", "the HTTP API", "$HTTP_URL", NeedHTTP, func(d *Deployment) string { return d.HTTPURL }}
	functionURL = surface{"function-url", "the function URL", "$FUNCTION_URL", NeedFunctionURL, func(d *Deployment) string { return d.FunctionURL }}
	layerURL    = surface{"layer", "the function with the layer", "$LAYER_URL", NeedLayerURL, func(d *Deployment) string { return d.LayerURL }}
)

var surfaces = []surface{restAPI, httpAPI, functionURL, layerURL}

// These fields are in each answer of an API of one kind.
const (
	fieldREST = "X-Amz-Apigw-Id"
	fieldHTTP = "Apigw-Requestid"
)

func (u surface) answers() Row {
	return Row{
		ID:    u.id + "-answers",
		Claim: fmt.Sprintf("%s is correct: %s answers.", u.need, u.name),
		Hand:  fmt.Sprintf("`curl -si %s/api/v1/search`; a REST API answers with `x-amz-apigw-id`, an HTTP API with `apigw-requestid`", u.variable),
		Needs: []Need{u.need},
		Cost:  Cost{Requests: probeCost},
		Check: func(ctx context.Context, s *session) Observation {
			a := s.probe(ctx, u.url(s.Deployment))
			expected := "an answer of " + u.name
			switch {
			case a.err != nil:
				return failed(expected, a.summary(), a.String())
			case u.need == NeedREST && a.header.Get(fieldHTTP) != "":
				return failed(expected, "an HTTP API; give its URL with --http-url", a.String())
			case u.need == NeedHTTP && a.header.Get(fieldREST) != "":
				return failed(expected, "a REST API; give its URL with --url", a.String())
			}
			return passed(expected, strconv.Itoa(a.status))
		},
	}
}

func (u surface) allowedFields() Row {
	return Row{
		ID:    u.id + "-allowed-fields",
		Claim: fmt.Sprintf("An answer of %s to an admitted request has the fields of the limit.", u.name),
		Hand:  fmt.Sprintf("`curl -si %s/api/v1/search | grep -i ratelimit`", u.variable),
		Needs: []Need{u.need},
		Cost:  Cost{Requests: probeCost},
		Check: func(ctx context.Context, s *session) Observation {
			a := s.probe(ctx, u.url(s.Deployment))
			switch {
			case a.refused():
				return skipped(UsedUp)
			case a.status == http.StatusUnauthorized && len(s.Credential) == 0:
				return skipped(noCredential)
			}
			wrong := wrongFields(a.header)
			if a.status >= http.StatusInternalServerError {
				wrong = []string{a.summary()}
			}
			return verdict("the fields of the limit", described(a.header), wrong, a)
		},
	}
}

// UsedUp is the reason of a row that is skipped because a limit of the caller is used up, for example by an earlier run.
const UsedUp = "the limit is used up; run again later, or raise --wait"

// The reasons to skip a row because of the credential.
const (
	noCredential   = "the deployment requires a credential; set WEIR_TOKEN or WEIR_API_KEY"
	noAPIKeys      = "API keys identify no caller (API_KEY_HEADER is none)"
	badCredentials = "a limit on bad credentials is used up; run again later"
)

// allowedRows are the rows about requests that no limit refuses.
func (u surface) allowedRows() []Row {
	return []Row{
		u.allowedFields(),
		{
			ID:    u.id + "-unauthorized",
			Claim: fmt.Sprintf("A request to %s with an unknown API key gets 401 with a challenge, and so does one with an invalid token if there is an issuer.", u.name),
			Hand:  fmt.Sprintf("`curl -i -H 'x-api-key: weir_unknown' %s/api/v1/search`", u.variable),
			Needs: []Need{u.need},
			Cost:  Cost{Requests: 2},
			Check: u.unauthorized,
		},
		{
			ID:    u.id + "-suspended-key",
			Claim: fmt.Sprintf("A request to %s with a suspended API key gets 401.", u.name),
			Hand:  fmt.Sprintf("`.bin/weir keys set ID --suspended`, then `curl -i -H \"x-api-key: $KEY\" %s/api/v1/search` a minute later", u.variable),
			Needs: []Need{u.need, NeedSuspendedKey},
			Cost:  Cost{Requests: 1},
			Check: func(ctx context.Context, s *session) Observation {
				field := s.field(apiKeyField)
				if field == "" {
					return skipped(noAPIKeys)
				}
				a := s.send(ctx, request{method: http.MethodGet, url: u.url(s.Deployment), path: s.plan.Path, header: http.Header{field: {s.SuspendedKey}}})
				switch {
				case a.refused():
					return skipped(badCredentials)
				case a.status != http.StatusUnauthorized:
					return failed("401", a.summary(), a.String())
				}
				return passed("401", a.summary())
			},
		},
		{
			ID:    u.id + "-preflight",
			Claim: fmt.Sprintf("A CORS preflight of %s gets an answer and counts on no limit.", u.name),
			Hand:  fmt.Sprintf("`curl -si -X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: GET' %s/api/v1/search`, with `corsOrigins`", u.variable),
			Needs: []Need{u.need},
			After: []string{"store-decides", u.id + "-allowed-fields"},
			Cost:  Cost{Requests: 2 + preflights},
			Check: u.preflight,
		},
	}
}

// unauthorized tests the answers to bad credentials. A deployment without an issuer ignores tokens.
func (u surface) unauthorized(ctx context.Context, s *session) Observation {
	const expected = "401 with a challenge and a problem"
	var tested []string
	for _, c := range []struct{ name, field, value string }{{"an API key", s.field(apiKeyField), "weir_verify"}, {"a token", "Authorization", "Bearer weir-verify"}} {
		if c.field == "" {
			continue
		}
		a := s.send(ctx, request{method: http.MethodGet, url: u.url(s.Deployment), path: s.plan.Path, header: http.Header{c.field: {c.value}}})
		switch {
		case a.refused():
			return skipped(badCredentials)
		case a.allowed() && c.field == "Authorization" && s.Credential.Get(c.field) == "":
			continue // no issuer
		case a.status != http.StatusUnauthorized:
			return failed(expected, a.summary(), a.String())
		}
		if wrong := wrongChallenge(a); len(wrong) > 0 {
			return verdict(expected, "", wrong, a)
		}
		tested = append(tested, c.name)
	}
	if len(tested) == 0 {
		return skipped(noAPIKeys + ", and the deployment has no issuer")
	}
	return passed(expected, "401 to "+strings.Join(tested, " and "))
}

func wrongChallenge(a answer) (wrong []string) {
	challenge := a.header.Get("WWW-Authenticate") + a.header.Get("X-Amzn-Remapped-Www-Authenticate")
	if !strings.HasPrefix(challenge, "Bearer") {
		wrong = append(wrong, "no WWW-Authenticate")
	}
	if a.problem() != "unauthorized" || a.header.Get("Content-Type") != problemType {
		wrong = append(wrong, "no problem unauthorized")
	}
	return wrong
}

// preflights is the number of preflights that a test sends between two requests.
const preflights = 3

func (u surface) preflight(ctx context.Context, s *session) Observation {
	url := u.url(s.Deployment)
	remaining := func() (int, answer) {
		a := s.send(ctx, s.get(url, s.plan.Path))
		n, err := strconv.Atoi(a.header.Get(httplimit.RemainingField))
		if err != nil || !a.allowed() {
			return -1, a
		}
		return n, a
	}
	before, _ := remaining()
	if before < 1 {
		return skipped(UsedUp)
	}
	for _, p := range s.sendAll(ctx, request{method: http.MethodOptions, url: url, path: s.plan.Path, header: http.Header{
		"Origin": {cmp.Or(s.Origin, "https://weir-verify.example")}, "Access-Control-Request-Method": {http.MethodGet},
	}}, preflights) {
		switch {
		case p.err != nil || p.status >= http.StatusInternalServerError || p.refused():
			return failed("an answer to a preflight", p.summary(), p.String())
		case p.header.Get("Access-Control-Allow-Origin") == "":
			return skipped("the deployment permits no pages of other origins, or not of this one; choose another with --origin")
		}
	}
	after, a := remaining()
	expected := fmt.Sprintf("%d of the limit remain", before-1)
	if after < before-1 {
		return failed(expected, fmt.Sprint(after), a.String())
	}
	return passed(expected, fmt.Sprint(after))
}

func (u surface) refusedRow() Row {
	return Row{
		ID:    u.id + "-refused",
		Claim: fmt.Sprintf("A refusal by %s has the status 429, the fields of the limit and a problem as its body.", u.name),
		Hand:  fmt.Sprintf("`for i in $(seq 80); do curl -si %s/api/v1/items/1; done | grep -A14 '^HTTP.* 429'`", u.variable),
		Needs: []Need{u.need},
		After: []string{"store-decides", u.id + "-allowed-fields"},
		Cost:  Cost{Exhaust: true},
		Check: func(ctx context.Context, s *session) Observation {
			a, ok := s.exhaust(ctx, u.url(s.Deployment), s.plan.Exact)
			switch {
			case a.status == http.StatusUnauthorized && len(s.Credential) == 0:
				return skipped(noCredential)
			case !ok:
				return failed("429", "no limit refused a request; the last answer is "+a.summary(), a.String())
			}
			wrong := wrongRefusal(a.header)
			if a.status != http.StatusTooManyRequests {
				wrong = append(wrong, fmt.Sprintf("status %d", a.status))
			}
			if got := a.header.Get("Content-Type"); got != problemType {
				wrong = append(wrong, "Content-Type "+got)
			}
			name, requests := limitOf(a.header)
			return verdict("429 with Retry-After, the fields of the limit and a problem", described(a.header), append(wrong, wrongBody(a.body, name, requests)...), a)
		},
	}
}
