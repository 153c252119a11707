package stack

import (
	"encoding/json"
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// restAccess returns the format of the REST API's access log. It has the fields that the limits need.
func restAccess(limits *ratelimit.Limits) awsapigateway.AccessLogFormat {
	fields := limits.AccessLogFields()
	maps.Copy(fields, map[string]string{
		"path": "$context.resourcePath", "authorizerLatency": "$context.authorizer.latency",
		"authorizerStatus": "$context.authorizer.status", "authorizerError": "$context.authorizer.error",
	})
	return awsapigateway.AccessLogFormat_Custom(line(fields))
}

// httpAccess returns the format of the HTTP API's access log.
func httpAccess() *string {
	return line(map[string]string{"path": "$context.routeKey", "integrationError": "$context.integrationErrorMessage"})
}

// line returns the format of a line with these fields and those of both APIs.
func line(fields map[string]string) *string {
	maps.Copy(fields, map[string]string{
		"requestId": "$context.requestId", "time": "$context.requestTimeEpoch", "method": "$context.httpMethod",
		"status": "$context.status", "latency": "$context.responseLatency", "integrationLatency": "$context.integrationLatency",
	})
	content, _ := json.Marshal(fields) // Marshal never fails for strings
	return jsii.String(string(content))
}
