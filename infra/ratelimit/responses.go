package ratelimit

import (
	"maps"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// response is a gateway response of the limits.
type response struct {
	id, kind     string            // id of its construct, and its type
	status, body string            // "" means those of API Gateway
	fields       map[string]string // header fields; a value is a variable, or a literal in single quotes
}

// Bodies of gateway responses. API Gateway does not escape values in them, so they may contain only
// variables without quotes: those of contract.BodyKeys, which functions/lambdahttp writes.
const (
	refusedBody = `{"type":"$context.authorizer.problemType","title":"Too Many Requests","status":429,` +
		`"error":"$context.authorizer.problemError","message":"$context.authorizer.message","retry_after":$context.authorizer.wait,` +
		`"limit":$context.authorizer.limit,` +
		`"window":"$context.authorizer.window","violated-policies":["$context.authorizer.policy"]}`
	unauthorizedBody = `{"type":"about:blank","title":"Unauthorized","status":401,"error":"unauthorized",` +
		`"message":"The credentials are missing, malformed, unknown or expired."}`
	failedBody = `{"type":"about:blank","title":"Service Unavailable","status":503,"error":"authorizer_failed",` +
		`"message":"The request could not be authorized. Try again.","retry_after":1}`
	throttledBody = `{"type":"about:blank","title":"Too Many Requests","status":429,"error":"throttled",` +
		`"message":"The API as a whole has too many requests. Retry after 1 second.","retry_after":1}`
	quotaBody = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
		`"error":"quota_exceeded","message":"The quota of this API key's usage plan is used up."}`
)

// responses returns the gateway responses. API Gateway has a single type for denials,
// ACCESS_DENIED, so every denial has the same status.
func responses(origins []string) []response {
	decision := map[string]string{}
	for name, key := range contract.FieldKeys() {
		decision[name] = "context.authorizer." + key
	}
	retry := map[string]string{httplimit.RetryAfterField: "'1'"}
	all := []response{
		{"Refused", "ACCESS_DENIED", "429", refusedBody, decision},
		{"Unauthorized", "UNAUTHORIZED", "401", unauthorizedBody, map[string]string{"WWW-Authenticate": "'Bearer'"}},
		{"AuthorizerFailure", "AUTHORIZER_FAILURE", "503", failedBody, retry},
		{"AuthorizerConfigurationError", "AUTHORIZER_CONFIGURATION_ERROR", "503", failedBody, retry},
		{"Throttled", "THROTTLED", "429", throttledBody, retry},
		{"QuotaExceeded", "QUOTA_EXCEEDED", "429", quotaBody, nil},
	}
	for i, r := range all {
		all[i].fields = map[string]string{"Content-Type": "'application/problem+json'", "Cache-Control": "'no-store'"}
		maps.Copy(all[i].fields, r.fields)
	}
	if len(origins) == 0 {
		return all
	}
	all = append(all, response{id: "Default4xx", kind: "DEFAULT_4XX", fields: map[string]string{}},
		response{id: "Default5xx", kind: "DEFAULT_5XX", fields: map[string]string{}})
	// A gateway response cannot choose one of several origins, so for several it allows *. This is safe: the responses
	// contain no secret, and browsers send these requests without cookies.
	origin := "*"
	if len(origins) == 1 {
		origin = origins[0]
	}
	for _, r := range all {
		r.fields["Access-Control-Allow-Origin"] = "'" + origin + "'"
		r.fields["Access-Control-Expose-Headers"] = "'" + strings.Join(httplimit.ExposedFields(), ",") + "'"
	}
	return all
}
