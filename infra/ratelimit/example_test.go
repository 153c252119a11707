package ratelimit_test

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// A stack that has a REST API gets limits on all of its methods.
func ExampleLimits_Attach() {
	newStack := func(scope constructs.Construct) awscdk.Stack {
		stack := awscdk.NewStack(scope, jsii.String("Shop"), nil)
		api := awsapigateway.NewRestApi(stack, jsii.String("Api"), nil)
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
	newStack(app)
	app.Synth(nil)
}

// The function behind an HTTP API limits itself by the middleware of limiter/httplimit,
// and needs what the limiter in it needs.
func ExampleLimits_Equip() {
	newFunction := func(stack awscdk.Stack, limits *ratelimit.Limits) awslambda.Function {
		function := awslambda.NewFunction(stack, jsii.String("Orders"), &awslambda.FunctionProps{
			Runtime: awslambda.Runtime_PROVIDED_AL2023(), Architecture: awslambda.Architecture_ARM_64(), Handler: jsii.String("bootstrap"),
			Code: awslambda.Code_FromAsset(jsii.String("dist/arm64/orders"), nil), // with rules.json in it
		})
		limits.Equip(function)
		return function
	}
	_ = newFunction
}
