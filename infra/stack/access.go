package stack

import (
	"encoding/json"
	"maps"

	"github.com/aws/jsii-runtime-go"
)

// The fields of the access logs of the REST API, which also has those that the limits need, and of the HTTP API.
var (
	restFields = map[string]string{
		"path": "$context.resourcePath", "authorizerLatency": "$context.authorizer.latency",
		"authorizerStatus": "$context.authorizer.status", "authorizerError": "$context.authorizer.error",
	}
	httpFields = map[string]string{"path": "$context.routeKey", "integrationError": "$context.integrationErrorMessage"}
)

// accessFormat returns the format of an access log with these fields and those of both APIs.
func accessFormat(fields ...map[string]string) *string {
	all := map[string]string{
		"requestId": "$context.requestId", "time": "$context.requestTimeEpoch", "method": "$context.httpMethod",
		"status": "$context.status", "latency": "$context.responseLatency", "integrationLatency": "$context.integrationLatency",
	}
	for _, more := range fields {
		maps.Copy(all, more)
	}
	content, _ := json.Marshal(all) // Marshal never fails for strings
	return jsii.String(string(content))
}
