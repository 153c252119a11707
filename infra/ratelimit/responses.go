package ratelimit

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// response is a gateway response of the limits. id is the id of its construct.
type response struct {
	id      string
	options *awsapigateway.GatewayResponseOptions
}

// Bodies of gateway responses. API Gateway does not escape values in them, so they may contain only
// variables without quotes: those of contract.BodyKeys, which functions/lambdahttp writes.
const (
	refusedBody = `{"type":"$context.authorizer.problemType","title":"Too Many Requests","status":429,` +
		`"error":"$context.authorizer.problemError","message":"$context.authorizer.message","limit":$context.authorizer.limit,` +
		`"window":"$context.authorizer.window","violated-policies":["$context.authorizer.policy"]}`
	unauthorizedBody = `{"type":"about:blank","title":"Unauthorized","status":401,"error":"unauthorized",` +
		`"message":"The credentials are missing, malformed, unknown or expired."}`
	failedBody = `{"type":"about:blank","title":"Service Unavailable","status":503,"error":"authorizer_failed",` +
		`"message":"The request could not be authorized. Try again."}`
	throttledBody = `{"type":"about:blank","title":"Too Many Requests","status":429,"error":"throttled",` +
		`"message":"The API as a whole has too many requests. Retry after 1 second."}`
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
		{"Refused", problem(awsapigateway.ResponseType_ACCESS_DENIED(), "429", refusedBody, decision)},
		{"Unauthorized", problem(awsapigateway.ResponseType_UNAUTHORIZED(), "401", unauthorizedBody, map[string]string{"WWW-Authenticate": "'Bearer'"})},
		{"AuthorizerFailure", problem(awsapigateway.ResponseType_AUTHORIZER_FAILURE(), "503", failedBody, retry)},
		{"AuthorizerConfigurationError", problem(awsapigateway.ResponseType_AUTHORIZER_CONFIGURATION_ERROR(), "503", failedBody, retry)},
		{"Throttled", problem(awsapigateway.ResponseType_THROTTLED(), "429", throttledBody, retry)},
		{"QuotaExceeded", problem(awsapigateway.ResponseType_QUOTA_EXCEEDED(), "429", quotaBody, nil)},
	}
	if len(origins) == 0 {
		return all
	}
	all = append(all,
		response{"Default4xx", &awsapigateway.GatewayResponseOptions{Type: awsapigateway.ResponseType_DEFAULT_4XX()}},
		response{"Default5xx", &awsapigateway.GatewayResponseOptions{Type: awsapigateway.ResponseType_DEFAULT_5XX()}})
	for _, r := range all {
		allowOrigins(r.options, origins)
	}
	return all
}

func problem(kind awsapigateway.ResponseType, status, body string, fields map[string]string) *awsapigateway.GatewayResponseOptions {
	headers := map[string]*string{"Content-Type": jsii.String("'application/problem+json'"), "Cache-Control": jsii.String("'no-store'")}
	for name, value := range fields {
		headers[name] = jsii.String(value)
	}
	return &awsapigateway.GatewayResponseOptions{
		Type: kind, StatusCode: jsii.String(status), ResponseHeaders: &headers,
		Templates: &map[string]*string{"application/json": jsii.String(body)},
	}
}

// allowOrigins lets pages of other origins read a response. A gateway response cannot choose one of
// several origins, so for several it allows *. This is safe: the responses contain no secret, and
// browsers send these requests without cookies.
func allowOrigins(o *awsapigateway.GatewayResponseOptions, origins []string) {
	origin := "*"
	if len(origins) == 1 {
		origin = origins[0]
	}
	headers := map[string]*string{}
	if o.ResponseHeaders != nil {
		headers = *o.ResponseHeaders
	}
	headers["Access-Control-Allow-Origin"] = jsii.String("'" + origin + "'")
	headers["Access-Control-Expose-Headers"] = jsii.String("'" + strings.Join(httplimit.ExposedFields(), ",") + "'")
	o.ResponseHeaders = &headers
}
