package ratelimit

import (
	"fmt"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// attachment is an API that speaks by the limits' gateway responses.
type attachment struct {
	api        awsapigateway.RestApi
	authorizer awsapigateway.CfnAuthorizer // nil if the API's own asks the limiter
	methods    []awsapigateway.Method      // that were chosen; nil: all
}

// Attach puts methods of a REST API behind the limits; without methods all that the API
// has, so call it when it has them. OPTIONS is never limited: a preflight carries no
// credential and is the browser's, not its user's. The API's gateway responses become
// those of the limits: 429 for what its authorizer denies, for everything that is denied.
//
// Synthesizing the app fails, with one line for each, if a method has another authorizer or asks
// for an API Gateway key, if one has none in an API all of whose methods were to be limited, if the API has a
// gateway response of its own where the limits need theirs, if a domain puts a path before it that
// LimitsProps.Variables does not have as BASE_PATH, or if any authorizer that asks these limits caches its
// answers. What another app adds to the API is not seen.
func (l *Limits) Attach(api awsapigateway.RestApi, methods ...awsapigateway.Method) {
	a := l.respond(api)
	a.methods = methods
	a.authorizer = l.newRequestAuthorizer(api)
	var limited []string
	for _, m := range *api.Methods() {
		if cfn := m.Node().DefaultChild().(awsapigateway.CfnMethod); a.isMeant(cfn) && authorization(cfn) == none {
			cfn.SetAuthorizationType(jsii.String("CUSTOM"))
			cfn.SetAuthorizerId(a.authorizer.Ref())
			limited = append(limited, *m.Node().Path())
		}
	}
	// API Gateway serves a snapshot: without a new deployment a change is not seen.
	d := api.LatestDeployment()
	if d == nil {
		awscdk.Annotations_Of(api).AddWarningV2(jsii.String("weir:deployment"), jsii.String("the API is not deployed by the CDK: deploy it anew after each change of the limits' authorizer and gateway responses"))
		return
	}
	d.Node().AddDependency(a.authorizer)
	d.AddToLogicalId(map[string]any{"limiter": a.authorizer.AuthorizerUri(), "ttl": 0, "methods": limited})
}

// Respond gives a REST API the gateway responses of the limits, which Attach does too: for an
// API whose own authorizer asks the limiter and answers by functions/lambdahttp.DecisionContext.
// The API then has no others of these types.
func (l *Limits) Respond(api awsapigateway.RestApi) { l.respond(api) }

func (l *Limits) respond(api awsapigateway.RestApi) *attachment {
	if slices.ContainsFunc(l.attached, func(a *attachment) bool { return *a.api.Node().Path() == *api.Node().Path() }) {
		panic(fmt.Errorf("ratelimit: the limits are attached to %s already: attach them once, with all the methods", *api.Node().Path()))
	}
	for _, r := range responses(l.props.CORSOrigins) {
		api.AddGatewayResponse(jsii.String("Limits"+r.id), r.options)
	}
	a := &attachment{api: api}
	l.attached = append(l.attached, a)
	return a
}

// newRequestAuthorizer makes the REQUEST authorizer of an API. It caches nothing, and so it needs no
// identity source: one that is missing would be a 401 that the limits never saw.
func (l *Limits) newRequestAuthorizer(api awsapigateway.RestApi) awsapigateway.CfnAuthorizer {
	stack := awscdk.Stack_Of(api)
	authorizer := awsapigateway.NewCfnAuthorizer(api, jsii.String("Limiter"), &awsapigateway.CfnAuthorizerProps{
		Name: jsii.String("limiter"), Type: jsii.String("REQUEST"), RestApiId: api.RestApiId(),
		IdentitySource: jsii.String(""), AuthorizerResultTtlInSeconds: jsii.Number(0),
		AuthorizerUri: jsii.Sprintf("arn:%s:apigateway:%s:lambda:path/2015-03-31/functions/%s/invocations",
			*stack.Partition(), *stack.Region(), *l.invoked.FunctionArn()),
	})
	// In the API's stack: one that is in the function's would make the stacks need each other.
	awslambda.NewCfnPermission(api, jsii.String("LimiterPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: l.invoked.FunctionArn(), Principal: jsii.String("apigateway.amazonaws.com"),
		SourceArn: stack.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.RestApiId(),
			ResourceName: jsii.Sprintf("authorizers/%s", *authorizer.Ref()),
		}),
	})
	return authorizer
}

const (
	options = "OPTIONS"
	none    = "NONE"
)

// isMeant reports whether a method is to be limited.
func (a *attachment) isMeant(m awsapigateway.CfnMethod) bool {
	if len(a.methods) == 0 {
		return *m.HttpMethod() != options
	}
	return slices.ContainsFunc(a.methods, func(chosen awsapigateway.Method) bool {
		return *chosen.Node().DefaultChild().Node().Path() == *m.Node().Path()
	})
}

// authorization returns a method's kind of authorization.
func authorization(m awsapigateway.CfnMethod) string {
	if kind := m.AuthorizationType(); kind != nil {
		return *kind
	}
	return none
}
