package ratelimit_test

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Attach limits all methods of a REST API.
func Example() {
	newStack := func(scope constructs.Construct) awscdk.Stack {
		stack := awscdk.NewStack(scope, jsii.String("Shop"), nil)
		api := awsapigateway.NewRestApi(stack, jsii.String("Api"), &awsapigateway.RestApiProps{CloudWatchRole: jsii.Bool(false)})
		api.Root().AddResource(jsii.String("orders"), nil).AddMethod(jsii.String("GET"), nil, nil)

		limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
			Namespace: "prod",
			Bundles:   "dist/arm64",
			Rules:     "rules.json",
		})
		limits.Attach(api) // after the API has its methods

		return stack
	}
	app := awscdk.NewApp(nil)
	stack := newStack(app)
	app.Synth(nil)

	for _, c := range *stack.Node().FindAll("") {
		if m, ok := c.(awsapigateway.CfnMethod); ok {
			fmt.Println(*m.Node().Path(), *m.AuthorizationType())
		}
	}
	// Output: Shop/Api/Default/orders/GET/Resource CUSTOM
}

// The function behind an HTTP API makes the decisions itself. Equip gives it what the limiter
// needs.
func ExampleLimits_Equip() {
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
		Namespace: "prod",
		Bundles:   "dist/arm64",
		Rules:     "rules.json",
	})
	function := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("bootstrap"),
		Code: awslambda.Code_FromAsset(jsii.String("dist/arm64/orders"), nil), // this folder contains rules.json
	})
	limits.Equip(function)
	app.Synth(nil)
	// Output:
}

// A limit with "count" is settled after the answer: from the access log, or by a call of the back
// end.
func ExampleLimits_WatchAccessLog() {
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	function := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_LATEST(), Handler: jsii.String("index.handler"),
		Code: awslambda.Code_FromInline(jsii.String("exports.handler = async () => ({ statusCode: 200 })")),
	})
	limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
		Namespace: "prod",
		Bundles:   "dist/arm64",
		Rules:     "count.json",
	})
	lines := map[string]any{"requestId": "$context.requestId"}
	for name, variable := range limits.AccessLogFields() {
		lines[name] = variable
	}
	logs := awslogs.NewLogGroup(stack, jsii.String("Access"), nil)
	limits.WatchAccessLog(stack, logs)
	api := awsapigateway.NewRestApi(stack, jsii.String("Api"), &awsapigateway.RestApiProps{
		CloudWatchRole: jsii.Bool(false), // the account has one role for the logs of all APIs
		DeployOptions: &awsapigateway.StageOptions{
			AccessLogDestination: awsapigateway.NewLogGroupLogDestination(logs),
			AccessLogFormat:      awsapigateway.AccessLogFormat_Custom(stack.ToJsonString(lines, nil)),
		},
	})
	api.Root().AddMethod(jsii.String("POST"), awsapigateway.NewLambdaIntegration(function, nil), nil)
	limits.Attach(api)
	limits.ReportFunction().GrantInvoke(function)
	function.AddEnvironment(jsii.String("REPORT_FUNCTION"), limits.ReportFunction().FunctionName(), nil)
	app.Synth(nil)
	// Output:
}

// AddLayer limits a function in Node.js behind an HTTP API, a function URL or a load balancer. Its
// code does not change.
func ExampleLimits_AddLayer() {
	app := awscdk.NewApp(nil)
	stack := awscdk.NewStack(app, jsii.String("Shop"), nil)
	limits := ratelimit.NewLimits(stack, jsii.String("Limits"), &ratelimit.LimitsProps{
		Namespace: "prod",
		Bundles:   "dist/arm64",
		Rules:     "rules.json",
	})
	function := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_22_X(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("index.handler"),
		Code: awslambda.Code_FromInline(jsii.String("exports.handler = async () => ({ statusCode: 200 })")),
	})
	limits.AddLayer(function)
	app.Synth(nil)
	// Output:
}
