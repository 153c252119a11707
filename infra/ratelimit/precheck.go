package ratelimit

import (
	_ "embed"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

//go:embed precheck.js
var precheckSource string

// precheckSeconds is the function's timeout: the minute in which it repeats a denied call, and some calls of API
// Gateway.
const precheckSeconds = 90

// newPrecheck creates a custom resource for an imported API. It fails the deployment before it
// changes the API, if the API does not exist or already has gateway responses of the limits' types.
// CloudFormation's own error would name no remedy. For an API of this app, the synthesis finds such
// responses. The attribute Name of the resource is the name of the API.
func (l *Limits) newPrecheck(api awsapigateway.IRestApi, all []response) awscdk.CustomResource {
	scope := constructs.NewConstruct(api.(constructs.Construct), jsii.String("LimitsPrecheck"))
	f, _ := l.newLoggedFunction(scope, "Function", "", &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_24_X(), Handler: jsii.String("index.handler"),
		Code:    awslambda.Code_FromInline(jsii.String(precheckSource)),
		Timeout: awscdk.Duration_Seconds(jsii.Number(precheckSeconds)),
	})
	stack := awscdk.Stack_Of(scope)
	arn := jsii.Sprintf("arn:%s:apigateway:%s::/restapis/%s", *stack.Partition(), *stack.Region(), *api.RestApiId())
	allow(f, []string{"apigateway:GET"}, arn, jsii.String(*arn+"/gatewayresponses"))
	bodies := map[string]any{}
	for _, r := range all {
		bodies[r.kind] = r.body
	}
	return awscdk.NewCustomResource(scope, jsii.String("Resource"), &awscdk.CustomResourceProps{
		ServiceToken: f.FunctionArn(), ResourceType: jsii.String("Custom::WeirPrecheck"), ServiceTimeout: awscdk.Duration_Minutes(jsii.Number(5)),
		// Returns changes with the attributes, so that CloudFormation invokes the function for new ones
		Properties: &map[string]any{"RestApiId": api.RestApiId(), "Responses": bodies, "Returns": "Name"},
	})
}
