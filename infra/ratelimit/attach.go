package ratelimit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// attachment is an API behind the limits.
type attachment struct {
	limits     *Limits
	api        awsapigateway.RestApi
	authorizer awsapigateway.CfnAuthorizer
	methods    []awsapigateway.Method // that were chosen; nil: all
	problems   []*string
}

// Attach puts methods of a REST API behind the limits; without methods all that the API
// has, so call it when it has them. OPTIONS is never limited: a preflight carries no
// credential and is the browser's, not its user's. The API's gateway responses become
// those of the limits: 429 for what its authorizer denies, for everything that is denied.
//
// Synthesizing the stack fails, with one line for each, if a method has another
// authorizer, if one is added after Attach to an API all of whose methods were to be
// limited, if the API has a gateway response of its own where the limits need theirs, or
// if any authorizer that is this function caches its answers.
func (l *Limits) Attach(api awsapigateway.RestApi, methods ...awsapigateway.Method) {
	a := &attachment{limits: l, api: api, methods: methods}
	a.authorizer = a.newAuthorizer()
	var protected []string
	for _, m := range *api.Methods() {
		if a.isMeant(m) && a.protect(m) {
			protected = append(protected, *m.Node().Path())
		}
	}
	l.Respond(api)
	// API Gateway serves a snapshot: without a new deployment a change is not seen.
	if d := api.LatestDeployment(); d != nil {
		d.Node().AddDependency(a.authorizer)
		d.AddToLogicalId(map[string]any{"limiter": a.authorizer.AuthorizerUri(), "ttl": 0, "methods": protected})
	}
	api.Node().AddValidation(a)
}

// Respond gives a REST API the gateway responses of the limits, which Attach does too: for an
// API whose own authorizer asks the limiter and answers by functions/app.DecisionContext.
// The API then has no others of these types.
func (l *Limits) Respond(api awsapigateway.RestApi) {
	for _, r := range responses(l.props.CORSOrigins) {
		api.AddGatewayResponse(jsii.String("Limits"+r.id), r.options)
	}
}

// newAuthorizer makes the REQUEST authorizer. It caches nothing, and so it needs no
// identity source: one that is missing would be a 401 that the limits never saw.
func (a *attachment) newAuthorizer() awsapigateway.CfnAuthorizer {
	stack := awscdk.Stack_Of(a.api)
	authorizer := awsapigateway.NewCfnAuthorizer(a.api, jsii.String("Limiter"), &awsapigateway.CfnAuthorizerProps{
		Name: jsii.String("limiter"), Type: jsii.String("REQUEST"), RestApiId: a.api.RestApiId(),
		IdentitySource: jsii.String(""), AuthorizerResultTtlInSeconds: jsii.Number(0),
		AuthorizerUri: jsii.Sprintf("arn:%s:apigateway:%s:lambda:path/2015-03-31/functions/%s/invocations",
			*stack.Partition(), *stack.Region(), *a.limits.invoked.FunctionArn()),
	})
	a.limits.invoked.AddPermission(jsii.String("From"+*a.api.Node().Id()), &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
		SourceArn: stack.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: a.api.RestApiId(),
			ResourceName: jsii.Sprintf("authorizers/%s", *authorizer.Ref()),
		}),
	})
	return authorizer
}

const options = "OPTIONS"

func (a *attachment) isMeant(m awsapigateway.Method) bool {
	if len(a.methods) == 0 {
		return *m.HttpMethod() != options
	}
	return slices.ContainsFunc(a.methods, func(chosen awsapigateway.Method) bool { return *chosen.Node().Path() == *m.Node().Path() })
}

// protect gives a method the authorizer, unless it has one.
func (a *attachment) protect(m awsapigateway.Method) bool {
	cfn := cfnMethod(m)
	if authorization(cfn) != none { // Validate says so
		return false
	}
	cfn.SetAuthorizationType(jsii.String("CUSTOM"))
	cfn.SetAuthorizerId(a.authorizer.Ref())
	return true
}

func (a *attachment) problem(format string, args ...any) {
	a.problems = append(a.problems, jsii.Sprintf(format, args...))
}

// Validate implements constructs.IValidation: it returns what is wrong with the API when
// the stack is synthesized.
func (a *attachment) Validate() *[]*string {
	a.problems = nil
	for _, m := range *a.api.Methods() {
		switch cfn := cfnMethod(m); {
		case !a.isMeant(m) || cfn.AuthorizerId() != nil && *cfn.AuthorizerId() == *a.authorizer.Ref():
		case authorization(cfn) == none:
			a.problem("%s was added after the limits were attached, and is not limited: attach them last", name(m))
		default:
			a.problem("%s has an authorizer of its own (%s), and a method has one: replace that one, call the limiter inside it, or limit in the handler", name(m), authorization(cfn))
		}
	}
	stack := awscdk.Stack_Of(a.api)
	types := map[string]bool{}
	for _, each := range *stack.Node().FindAll("") {
		switch c := each.(type) {
		case awsapigateway.CfnAuthorizer:
			if a.isOurs(stack, c) && (c.AuthorizerResultTtlInSeconds() == nil || *c.AuthorizerResultTtlInSeconds() != 0) {
				a.problem("authorizer %s caches its answers, and a cached answer counts nothing: set its results' time to live to 0", *c.Node().Path())
			}
		case awsapigateway.CfnGatewayResponse:
			if *text(stack, c.RestApiId()) != *text(stack, a.api.RestApiId()) {
				continue
			}
			if types[*c.ResponseType()] {
				a.problem("%s: the API has a gateway response of type %s twice, and the limits need theirs", *c.Node().Path(), *c.ResponseType())
			}
			types[*c.ResponseType()] = true
		}
	}
	return &a.problems
}

// isOurs reports whether an authorizer is the function of the limits.
func (a *attachment) isOurs(stack awscdk.Stack, c awsapigateway.CfnAuthorizer) bool {
	return c.AuthorizerUri() != nil && strings.Contains(*text(stack, c.AuthorizerUri()), *text(stack, a.limits.invoked.FunctionArn()))
}

// text returns a value as the template has it.
func text(stack awscdk.Stack, v any) *string {
	resolved, err := json.Marshal(stack.Resolve(v))
	if err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return jsii.String(strings.Trim(string(resolved), "{}"))
}

const none = "NONE"

// authorization returns a method's kind of authorization.
func authorization(m awsapigateway.CfnMethod) string {
	if kind := m.AuthorizationType(); kind != nil {
		return *kind
	}
	return none
}

func cfnMethod(m awsapigateway.Method) awsapigateway.CfnMethod {
	return m.Node().DefaultChild().(awsapigateway.CfnMethod)
}

// name returns a method as people call it.
func name(m awsapigateway.Method) string {
	return *m.HttpMethod() + " " + *m.Resource().Path()
}
