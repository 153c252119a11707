package ratelimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// attachment is an API that has the gateway responses of the limits.
type attachment struct {
	api        awsapigateway.IRestApi
	id         string                      // logical id of the API in its stack
	authorizer awsapigateway.CfnAuthorizer // nil after Respond and NewAuthorizer
	methods    []awsapigateway.Method      // methods given to Attach; nil means all
}

// Attach limits methods of a REST API. If it gets no methods, it limits all of them. Call it after
// the API has its methods. The API also gets the gateway responses of the limits: every denial by an
// authorizer gets the 429 of the limits. OPTIONS is limited unless API Gateway itself answers it, as it answers
// preflights.
//
// The API is defined in this app or imported. For an imported API, only the methods that this app adds are limited, and
// the app cannot deploy the API again after a change. The methods of an API from OpenAPI are in its document: see
// [Limits.Respond].
//
// The synthesis of the app fails, with one line for each conflict, if
//   - a method has another authorizer, or needs an API key of API Gateway that FOREIGN_API_KEYS=refuse rejects;
//   - a method that should be limited was added later;
//   - the API defines a gateway response that the limits also define;
//   - a mapping of a custom domain adds a path before the API, and BASE_PATH in [LimitsProps].Variables does
//     not list that path;
//   - an authorizer with these limits caches its results.
//
// Attach cannot see what another app adds to the API: it replaces gateway responses of an imported API.
func (l *Limits) Attach(api awsapigateway.IRestApi, methods ...awsapigateway.Method) {
	a := l.newAttachment(api)
	a.methods, a.authorizer = methods, l.newRequestAuthorizer(api)
	limited := a.limit()
	// API Gateway serves a snapshot of the API, so each change must create a new deployment.
	d := api.LatestDeployment()
	if d == nil {
		warn(api, "weir:deployment", "the CDK does not deploy this API; deploy it yourself after each change of the limits' authorizer and "+
			"gateway responses")
		return
	}
	d.Node().AddDependency(a.authorizer)
	d.AddToLogicalId(map[string]any{"limiter": l.authorizerURI(api), "ttl": 0, "methods": limited})
}

// limit adds the authorizer to the chosen methods that have none, and returns their paths.
func (a *attachment) limit() (limited []string) {
	for _, each := range *awscdk.Stack_Of(a.api).Node().FindAll("") {
		m, ok := each.(awsapigateway.CfnMethod)
		if ok && resolved(m, m.RestApiId()) == a.id && a.isMeant(m) && authorization(m) == none {
			m.SetAuthorizationType(jsii.String("CUSTOM"))
			m.SetAuthorizerId(a.authorizer.Ref())
			limited = append(limited, strings.TrimSuffix(*m.Node().Path(), "/Resource"))
		}
	}
	return limited
}

// NewAuthorizer creates the authorizer of the limits in a REST API whose methods another tool defines, and
// gives the API the gateway responses of the limits. It returns the authorizer's id. The other tool gives
// this authorizer to the methods, and then deploys the API again.
func (l *Limits) NewAuthorizer(api awsapigateway.IRestApi) *string {
	l.newAttachment(api)
	return l.newRequestAuthorizer(api).Ref()
}

// Respond gives a REST API the gateway responses of the limits, as Attach also does. Call Respond for an API whose
// authorizer calls the limiter and returns functions/lambdahttp.DecisionContext, and for an API from OpenAPI whose document
// names [Limits.Authorizer]. The API must not define other responses of these types.
//
// An update of an OpenAPI definition in the default mode overwrite removes these responses. So create such
// an API with RestApiMode_MERGE; otherwise the synthesis warns.
func (l *Limits) Respond(api awsapigateway.IRestApi) {
	cfn, own := api.Node().DefaultChild().(awsapigateway.CfnRestApi)
	if own && (cfn.Body() != nil || cfn.BodyS3Location() != nil) && (cfn.Mode() == nil || *cfn.Mode() != "merge") {
		warn(api, "weir:mode", "each update of the API's definition removes the gateway responses of the limits; set Mode to RestApiMode_MERGE")
	}
	l.newAttachment(api)
}

// warn adds a warning that an app can acknowledge by its id, in the form of Annotations.AddWarningV2, which has other
// arguments in later versions of the CDK.
func warn(c constructs.IConstruct, id, warning string) {
	c.Node().AddMetadata(jsii.String("aws:cdk:warning"), warning+" [ack: "+id+"]", nil)
}

// newAttachment registers an API, and gives it the gateway responses of the limits. It panics if the API is already attached.
func (l *Limits) newAttachment(api awsapigateway.IRestApi) *attachment {
	if slices.ContainsFunc(l.attached, func(a *attachment) bool { return *a.api.Node().Path() == *api.Node().Path() }) {
		panic(fmt.Errorf("ratelimit: the limits are already attached to %s; call Attach once with all its methods", *api.Node().Path()))
	}
	a := &attachment{api: api, id: resolved(api, api.RestApiId())}
	l.attached = append(l.attached, a)
	for _, f := range l.equipped[1:] { // the first one is the authorizer
		f.AddEnvironment(jsii.String(contract.VariableBehindAuthorizer), jsii.String("true"), nil)
	}
	for _, f := range l.layered {
		f.AddEnvironment(jsii.String(contract.LayerVariable(contract.VariableBehindAuthorizer)), jsii.String("true"), nil)
	}
	if _, own := api.Node().DefaultChild().(awsapigateway.CfnRestApi); own { // the name of an imported API is unknown here
		id := alarmID(api)
		if *api.Node().Scope().Node().Path() == *awscdk.Stack_Of(l).Node().Path() { // an id is a unique name only in one scope
			id = *api.Node().Id()
		}
		l.NewAlarm(api.(constructs.Construct), Alarm{strings.ToLower(id) + "-errors",
			"More than 1 % of the REST API's answers are 5xx. Look at authorizer-errors and authorizer-throttled, then at the logs of the " +
				"authorizer and the back end.", Enough(APIErrors("REST", api.RestApiName()), "restRequests"), answersPercent, 3, 5})
	}
	for _, r := range responses(l.props.found.Refusal, l.props.CORSOrigins) {
		p := &awsapigateway.GatewayResponseProps{RestApi: api, Type: awsapigateway.ResponseType_Of(&r.kind), ResponseHeaders: &r.fields}
		if r.status != "" {
			p.StatusCode, p.Templates = &r.status, &map[string]*string{"application/json": &r.body}
		}
		awsapigateway.NewGatewayResponse(api.(constructs.Construct), jsii.String("Limits"+r.id), p)
	}
	return a
}

// newRequestAuthorizer creates a REQUEST authorizer without a cache, so that each request counts,
// and without an identity source. With one, API Gateway would answer 401 to a request that lacks
// it, and the limits would not count that request. The permission to invoke the function is a resource in the API's
// stack: in the function's stack, it would make the two stacks depend on each other.
func (l *Limits) newRequestAuthorizer(api awsapigateway.IRestApi) awsapigateway.CfnAuthorizer {
	scope := api.(constructs.Construct)
	authorizer := awsapigateway.NewCfnAuthorizer(scope, jsii.String("Limiter"), &awsapigateway.CfnAuthorizerProps{
		Name: jsii.String("limiter"), Type: jsii.String("REQUEST"), RestApiId: api.RestApiId(),
		IdentitySource: jsii.String(""), AuthorizerResultTtlInSeconds: jsii.Number(0),
		AuthorizerUri: l.authorizerURI(scope),
	})
	awslambda.NewCfnPermission(scope, jsii.String("LimiterPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: l.authorizer.FunctionArn(),
		Principal: jsii.String("apigateway.amazonaws.com"),
		SourceArn: awscdk.Stack_Of(scope).FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("execute-api"), Resource: api.RestApiId(),
			ResourceName: jsii.Sprintf("authorizers/%s", *authorizer.Ref()),
		}),
	})
	return authorizer
}

// authorizerURI returns the URI with which API Gateway invokes the authorizer.
func (l *Limits) authorizerURI(scope constructs.IConstruct) *string {
	stack := awscdk.Stack_Of(scope)
	return jsii.Sprintf("arn:%s:apigateway:%s:lambda:path/2015-03-31/functions/%s/invocations",
		*stack.Partition(), *stack.Region(), *l.authorizer.FunctionArn())
}

const none = "NONE"

// isMeant reports whether Attach was called for this method.
func (a *attachment) isMeant(m awsapigateway.CfnMethod) bool {
	if len(a.methods) == 0 {
		return !answersItself(m)
	}
	return slices.ContainsFunc(a.methods, func(chosen awsapigateway.Method) bool {
		return *chosen.Node().DefaultChild().Node().Path() == *m.Node().Path()
	})
}

// answersItself reports whether API Gateway answers a method without a back end, as it does preflights.
func answersItself(m awsapigateway.CfnMethod) bool {
	if *m.HttpMethod() != "OPTIONS" || m.Integration() == nil {
		return false
	}
	integration, _ := awscdk.Stack_Of(m).Resolve(m.Integration()).(map[string]any)
	return integration["type"] == "MOCK"
}

// authorization returns the method's AuthorizationType, such as CUSTOM.
func authorization(m awsapigateway.CfnMethod) string {
	if kind := m.AuthorizationType(); kind != nil {
		return *kind
	}
	return none
}
