package main

import (
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/infra/ratelimit"

	"example.com/limits/functions/api"
)

// throttle bounds the requests a second of all callers together.
const throttle = 600

// newStack adds the stack of a stage: a REST API, whose authorizer enforces the limits, and the handler behind it.
func newStack(scope constructs.Construct, stage, bundles string) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String("Limits-"+stage), nil)
	limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
		Namespace: stage,
		Bundles:   bundles,
		Rules:     "../functions/rules.json",
	})
	handler := limits.NewFunction("Handler", ratelimit.FunctionProps{Bundle: bundles + "/handler", Role: "handler", Timeout: 10 * time.Second})
	rest := awsapigateway.NewRestApi(stack, jsii.String("Api"), &awsapigateway.RestApiProps{
		CloudWatchRole: jsii.Bool(false),
		DeployOptions: &awsapigateway.StageOptions{
			StageName:            jsii.String(stage),
			ThrottlingRateLimit:  jsii.Number(throttle),
			ThrottlingBurstLimit: jsii.Number(throttle),
		},
	})
	to := awsapigateway.NewLambdaIntegration(handler, nil)
	for _, route := range api.New(nil).(*lambdahttp.Mux).Routes() {
		method, path, _ := strings.Cut(route, " ")
		rest.Root().ResourceForPath(&path).AddMethod(&method, to, nil)
	}
	limits.Attach(rest)
	return stack
}
