package ratelimit

import (
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// response is a gateway response of the limits.
type response struct {
	id, kind     string             // id of its construct, and its type
	status, body string             // "" means those of API Gateway
	fields       map[string]*string // header fields; a value is a variable, or a literal in single quotes
}

// bodyOf returns the content type and the body of a gateway response in a form; see [httplimit.Problem.Body]. API Gateway does not
// escape values, so a body may contain only variables without quotes: those of contract.BodyKeys, which functions/lambdahttp writes.
func bodyOf(form string, p httplimit.Problem) (contentType, body string) {
	p.Title = http.StatusText(p.Status)
	contentType, text := p.Body(form, nil)
	return contentType, numbers.Replace(string(text))
}

// anyWait and anyLimit stand for numbers that the authorizer returns, and numbers replaces them by variables.
const anyWait, anyLimit = 1_000_000_001, 1_000_000_002

var numbers = strings.NewReplacer(strconv.Itoa(anyWait), variable(contract.KeyWait), strconv.Itoa(anyLimit), variable(contract.KeyLimit))

func variable(key string) string { return "$context.authorizer." + key }

const (
	blank         = "about:blank"
	quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
)

// These are the problems of gateway responses.
var (
	refused = httplimit.Problem{Type: variable(contract.KeyType), Status: http.StatusTooManyRequests, Error: variable(contract.KeyError),
		Message: variable(contract.KeyMessage), Wait: anyWait, Limit: anyLimit, Window: variable(contract.KeyWindow),
		Violated: []string{variable(contract.KeyPolicy)}}
	unauthorized = httplimit.Problem{Type: blank, Status: http.StatusUnauthorized, Error: "unauthorized",
		Message: "The credentials are missing, malformed, unknown or expired."}
	failed = httplimit.Problem{Type: blank, Status: http.StatusServiceUnavailable, Error: "authorizer_failed",
		Message: "The request could not be authorized. Try again.", Wait: 1}
	throttled = httplimit.Problem{Type: blank, Status: http.StatusTooManyRequests, Error: "throttled",
		Message: "The API as a whole has too many requests. Retry after 1 second.", Wait: 1}
	quota = httplimit.Problem{Type: quotaExceeded, Status: http.StatusTooManyRequests, Error: "quota_exceeded",
		Message: "The quota of this API key's usage plan is used up."}
)

// responses returns the gateway responses, with bodies in a form. API Gateway has a single type for denials,
// ACCESS_DENIED, so every denial has the same status.
func responses(form string, origins []string) []response {
	decision := map[string]*string{}
	for name, key := range contract.FieldKeys() {
		decision[name] = jsii.String(strings.TrimPrefix(variable(key), "$"))
	}
	retry := map[string]*string{httplimit.RetryAfterField: jsii.String("'1'")}
	var all []response
	for _, r := range []struct {
		id, kind string
		problem  httplimit.Problem
		fields   map[string]*string
	}{
		{"Refused", "ACCESS_DENIED", refused, decision},
		{"Unauthorized", "UNAUTHORIZED", unauthorized, map[string]*string{"WWW-Authenticate": jsii.String("'Bearer'")}},
		{"AuthorizerFailure", "AUTHORIZER_FAILURE", failed, retry},
		{"AuthorizerConfigurationError", "AUTHORIZER_CONFIGURATION_ERROR", failed, retry},
		{"Throttled", "THROTTLED", throttled, retry},
		{"QuotaExceeded", "QUOTA_EXCEEDED", quota, nil},
	} {
		contentType, body := bodyOf(form, r.problem)
		fields := map[string]*string{"Content-Type": jsii.String("'" + contentType + "'"), "Cache-Control": jsii.String("'no-store'")}
		maps.Copy(fields, r.fields)
		all = append(all, response{r.id, r.kind, strconv.Itoa(r.problem.Status), body, fields})
	}
	if len(origins) == 0 {
		return all
	}
	all = append(all, response{id: "Default4xx", kind: "DEFAULT_4XX", fields: map[string]*string{}},
		response{id: "Default5xx", kind: "DEFAULT_5XX", fields: map[string]*string{}})
	// A gateway response cannot choose one of several origins, so for several it allows *. This is safe: the responses
	// contain no secret, and browsers send these requests without cookies.
	origin := "*"
	if len(origins) == 1 {
		origin = origins[0]
	}
	for _, r := range all {
		r.fields["Access-Control-Allow-Origin"] = jsii.String("'" + origin + "'")
		r.fields["Access-Control-Expose-Headers"] = jsii.String("'" + strings.Join(httplimit.ExposedFields(), ",") + "'")
	}
	return all
}
