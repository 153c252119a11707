package stack

import (
	_ "embed"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// routesFile has the routes of both sample APIs. `make golden` writes it from functions/sample.
//
//go:embed routes.txt
var routesFile string

// routes returns the method and the path of each route.
func routes() (list [][]string) {
	for line := range strings.Lines(routesFile) {
		list = append(list, strings.Fields(line))
	}
	return list
}

// The methods and header fields that a page of another origin may use.
var (
	corsMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	corsHeaders = []string{"Authorization", "Content-Type", "x-api-key"}
)

// newRESTAPI creates the REST API, whose methods the authorizer limits.
func (s *stage) newRESTAPI() awsapigateway.RestApi {
	logs := s.newAccessLog("RestAccess", nil)
	s.limits.WatchAccessLog(s.stack, logs)
	api := awsapigateway.NewRestApi(s.stack, jsii.String("Rest"), &awsapigateway.RestApiProps{
		RestApiName:    jsii.String("weir-" + s.settings.Namespace),
		EndpointTypes:  &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL},
		CloudWatchRole: jsii.Bool(s.settings.LogRole),
		DeployOptions: &awsapigateway.StageOptions{
			StageName:            jsii.String(s.settings.Namespace),
			ThrottlingRateLimit:  jsii.Number(s.settings.Throttle),
			ThrottlingBurstLimit: jsii.Number(s.settings.Throttle),
			AccessLogDestination: awsapigateway.NewLogGroupLogDestination(logs),
			AccessLogFormat:      awsapigateway.AccessLogFormat_Custom(accessFormat(s.limits.AccessLogFields(), restFields)),
			CachingEnabled:       jsii.Bool(false), // the default, but drift detection compares only properties that a template has
		},
		DefaultCorsPreflightOptions: s.preflight(),
	})
	to := awsapigateway.NewLambdaIntegration(s.handler, &awsapigateway.LambdaIntegrationOptions{AllowTestInvoke: jsii.Bool(false)})
	for _, r := range routes() {
		api.Root().ResourceForPath(&r[1]).AddMethod(&r[0], to, nil)
	}
	return api
}

// preflight returns the CORS settings, with which API Gateway answers OPTIONS without a function.
func (s *stage) preflight() *awsapigateway.CorsOptions {
	if len(s.settings.CORSOrigins) == 0 {
		return nil
	}
	return &awsapigateway.CorsOptions{
		AllowOrigins: jsii.Strings(s.settings.CORSOrigins...),
		AllowMethods: jsii.Strings(corsMethods...),
		AllowHeaders: jsii.Strings(corsHeaders...),
		MaxAge:       awscdk.Duration_Hours(jsii.Number(1)),
	}
}

// newHTTPAPI creates the HTTP API, whose handler makes the decisions.
func (s *stage) newHTTPAPI() awsapigatewayv2.HttpApi {
	api := awsapigatewayv2.NewHttpApi(s.stack, jsii.String("Http"), &awsapigatewayv2.HttpApiProps{
		ApiName:            jsii.String("weir-" + s.settings.Namespace),
		CreateDefaultStage: jsii.Bool(false),
	})
	if len(s.settings.CORSOrigins) > 0 {
		api.Node().DefaultChild().(awsapigatewayv2.CfnApi).SetCorsConfiguration(&awsapigatewayv2.CfnApi_CorsProperty{
			AllowOrigins: jsii.Strings(s.settings.CORSOrigins...), AllowMethods: jsii.Strings(corsMethods...),
			AllowHeaders: jsii.Strings(corsHeaders...), ExposeHeaders: jsii.Strings(httplimit.ExposedFields()...),
			MaxAge: jsii.Number(time.Hour.Seconds()),
		})
	}
	stage := awsapigatewayv2.NewHttpStage(s.stack, jsii.String("HttpStage"), &awsapigatewayv2.HttpStageProps{
		HttpApi: api, StageName: jsii.String("$default"), AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{RateLimit: jsii.Number(s.settings.Throttle),
			BurstLimit: jsii.Number(s.settings.Throttle)},
	})
	logs := s.newAccessLog("HttpAccess", jsii.String(vendedLogs+"apigateway/weir-"+s.settings.Namespace+"-http"))
	stage.Node().DefaultChild().(awsapigatewayv2.CfnStage).SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: logs.LogGroupArn(), Format: accessFormat(httpFields),
	})
	to := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Handler"), s.handler, nil)
	for _, r := range routes() {
		api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
			Path: &r[1], Methods: &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod(r[0])}, Integration: to,
		})
	}
	return api
}

// vendedLogs is a prefix of log groups to which AWS services can write under one policy of the
// account. For another name, an HTTP API adds a statement to an account policy, which may have
// 5,120 characters. So after about ten APIs, a deployment would fail. A REST API writes with a role
// instead.
const vendedLogs = "/aws/vendedlogs/"

// newAccessLog creates a log group. CloudFormation chooses the name if name is nil.
func (s *stage) newAccessLog(id string, name *string) awslogs.LogGroup {
	return awslogs.NewLogGroup(s.stack, &id, &awslogs.LogGroupProps{
		LogGroupName: name, Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}
