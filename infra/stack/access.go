package stack

import (
	"encoding/json"
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// restAccess returns the format of the REST API's access log. It has the fields that the limits need.
func restAccess(limits *ratelimit.Limits) awsapigateway.AccessLogFormat {
	fields := map[string]string{
		"requestId": "$context.requestId", "time": "$context.requestTimeEpoch",
		"method": "$context.httpMethod", "path": "$context.resourcePath", "status": "$context.status",
		"latency": "$context.responseLatency", "integrationLatency": "$context.integrationLatency",
		"authorizerLatency": "$context.authorizer.latency", "authorizerStatus": "$context.authorizer.status",
		"authorizerError": "$context.authorizer.error",
	}
	maps.Copy(fields, limits.AccessLogFields())
	return format(fields)
}

func httpAccess(logs awslogs.ILogGroup) awsapigatewayv2.IAccessLogSettings {
	return &accessLog{awsapigatewayv2.NewLogGroupLogDestination(logs), format(map[string]string{
		"requestId": "$context.requestId", "time": "$context.requestTimeEpoch",
		"method": "$context.httpMethod", "path": "$context.routeKey", "status": "$context.status",
		"latency": "$context.responseLatency", "integrationLatency": "$context.integrationLatency",
		"integrationError": "$context.integrationErrorMessage",
	})}
}

type accessLog struct {
	destination awsapigatewayv2.IAccessLogDestination
	format      awsapigateway.AccessLogFormat
}

// Destination implements awsapigatewayv2.IAccessLogSettings.
func (a *accessLog) Destination() awsapigatewayv2.IAccessLogDestination { return a.destination }

// Format implements awsapigatewayv2.IAccessLogSettings.
func (a *accessLog) Format() awsapigateway.AccessLogFormat { return a.format }

func format(fields map[string]string) awsapigateway.AccessLogFormat {
	line, _ := json.Marshal(fields) // Marshal never fails for strings
	return awsapigateway.AccessLogFormat_Custom(jsii.String(string(line)))
}
