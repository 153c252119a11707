package ratelimit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// validator implements constructs.IValidation for limits.
type validator struct{ limits *Limits }

// Validate returns the conflicts of the limits with the rest of the app, when the app is
// synthesized.
func (v *validator) Validate() *[]*string {
	w := validation{limits: v.limits, responses: map[string]bool{}, methods: map[*attachment]int{}}
	for _, each := range *v.limits.Node().Root().Node().FindAll("") {
		switch c := each.(type) {
		case awsapigateway.CfnAuthorizer:
			w.authorizer(c)
		case awsapigateway.CfnMethod:
			w.method(c)
		case awsapigateway.CfnRestApi:
			w.definition(c)
		case awsapigateway.CfnGatewayResponse:
			w.response(c)
		case awsapigateway.CfnBasePathMapping:
			w.basePath(c)
		case awscloudwatch.CfnInsightRule:
			w.namespace(c)
		}
	}
	for _, a := range v.limits.attached {
		if a.authorizer != nil && w.methods[a] == 0 {
			w.problem("%s: this app has no method of the API to limit", *a.api.Node().Path())
		}
	}
	return &w.problems
}

// validation is one pass over an app.
type validation struct {
	limits    *Limits
	responses map[string]bool     // by the API's path and the response's type
	methods   map[*attachment]int // methods that the limits protect
	problems  []*string
}

func (v *validation) problem(format string, args ...any) {
	v.problems = append(v.problems, jsii.Sprintf(format, args...))
}

// attachment returns the attachment to the API that a resource belongs to, nil if there is
// none. api is the API's id.
func (v *validation) attachment(c constructs.IConstruct, api any) *attachment {
	for _, a := range v.limits.attached {
		if *awscdk.Stack_Of(c).Node().Path() == *awscdk.Stack_Of(a.api).Node().Path() && resolved(c, api) == a.id {
			return a
		}
	}
	return nil
}

// resolved returns a value as the template of a construct's stack has it.
func resolved(c constructs.IConstruct, value any) string {
	content, err := json.Marshal(awscdk.Stack_Of(c).Resolve(value))
	if err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return string(content)
}

// authorizer rejects cached results of every function that contains the limiter.
func (v *validation) authorizer(c awsapigateway.CfnAuthorizer) {
	if ttl := c.AuthorizerResultTtlInSeconds(); c.AuthorizerUri() == nil || ttl != nil && *ttl == 0 {
		return
	}
	if v.invokes(resolved(c, c.AuthorizerUri())) {
		v.problem("authorizer %s caches its results, and a cached result counts nothing; set the time to live of its results to 0", *c.Node().Path())
	}
}

// invokes reports whether a URI is that of a function that contains the limiter.
func (v *validation) invokes(uri string) bool {
	return slices.ContainsFunc(v.limits.functions(), func(f awscdk.CfnElement) bool {
		// Another stack of the app imports the function by a name that contains its id.
		return strings.Contains(uri, *awscdk.Stack_Of(f).GetLogicalId(f))
	})
}

// functions returns the functions that contain the limiter, and the alias of one.
func (l *Limits) functions() (all []awscdk.CfnElement) {
	for _, f := range l.equipped {
		all = append(all, f.Node().DefaultChild().(awslambda.CfnFunction))
	}
	if alias, ok := l.invoked.Node().DefaultChild().(awslambda.CfnAlias); ok {
		all = append(all, alias)
	}
	return all
}

// namespace rejects a second deployment of one namespace in an account and region.
func (v *validation) namespace(c awscloudwatch.CfnInsightRule) {
	own := v.limits.refusedMost
	if *c.RuleName() == *own.RuleName() && *c.Node().Path() != *own.Node().Path() && *c.Stack().Environment() == *own.Stack().Environment() {
		v.problem("Namespace: %s has %s too; use different namespaces in one account and region", *c.Node().Scope().Node().Path(), v.limits.props.Namespace)
	}
}

// method rejects a method that should be limited and is not.
func (v *validation) method(c awsapigateway.CfnMethod) {
	a := v.attachment(c, c.RestApiId())
	if a == nil || a.authorizer == nil || !a.isMeant(c) {
		return
	}
	v.methods[a]++
	name := "method " + strings.TrimSuffix(*c.Node().Path(), "/Resource")
	switch {
	case authorization(c) == none:
		v.problem("%s is not limited; attach the limits after the API has all its methods", name)
	case c.AuthorizerId() == nil || *c.AuthorizerId() != *a.authorizer.Ref():
		v.problem("%s has an authorizer of its own (%s), and a method has one; replace it, call the limiter inside it, or limit in the handler", name, authorization(c))
	case c.ApiKeyRequired() == true:
		v.problem("%s needs an API key of API Gateway's, in the field x-api-key where the limiter expects its own; remove one of the two", name)
	}
}

// definition rejects an OpenAPI definition with an operation that is not limited, or with
// gateway responses of its own.
func (v *validation) definition(c awsapigateway.CfnRestApi) {
	a := v.attachment(c, c.Ref())
	if a == nil || !a.fromSpec {
		return
	}
	document := map[string]any{} // stays empty if the definition is in S3
	if c.Body() != nil {
		_ = json.Unmarshal([]byte(resolved(c, c.Body())), &document) // resolved marshals it
	}
	all := operationsOf(document)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(security(document, all[name]), schemeName) && a.limits {
			v.problem("%s: %s is not limited; make the definition with Limits.Definition", *a.api.Node().Path(), name)
		}
	}
	for _, path := range references(document) {
		if a.limits {
			v.problem("%s: "+referenceProblem, *a.api.Node().Path(), path)
		}
	}
	if len(all) == 0 && a.limits {
		v.problem("%s: the definition has no operation that this app can see; make it with Limits.Definition", *a.api.Node().Path())
	}
	for name, scheme := range member(member(document, "components"), "securitySchemes") {
		authorizer := member(scheme.(map[string]any), "x-amazon-apigateway-authorizer")
		if uri, _ := json.Marshal(authorizer["authorizerUri"]); v.invokes(string(uri)) && authorizer["authorizerResultTtlInSeconds"] != 0.0 {
			v.problem("%s: the security scheme %s caches its results, and a cached result counts nothing; set authorizerResultTtlInSeconds to 0", *a.api.Node().Path(), name)
		}
	}
	for kind := range member(document, "x-amazon-apigateway-gateway-responses") {
		v.addResponse(a, kind)
	}
}

func (v *validation) response(c awsapigateway.CfnGatewayResponse) {
	if a := v.attachment(c, c.RestApiId()); a != nil {
		v.addResponse(a, *c.ResponseType())
	}
}

// addResponse rejects a second gateway response of a type.
func (v *validation) addResponse(a *attachment, kind string) {
	key := *a.api.Node().Path() + " " + kind
	if v.responses[key] {
		v.problem("%s has two gateway responses of type %s, and the limits need theirs; remove the other", *a.api.Node().Path(), kind)
	}
	v.responses[key] = true
}

// basePath rejects a domain that puts a path before the API, so that no rule would match.
func (v *validation) basePath(c awsapigateway.CfnBasePathMapping) {
	if v.attachment(c, c.RestApiId()) == nil || c.BasePath() == nil || *c.BasePath() == "" {
		return
	}
	if got, want := v.limits.props.Variables[contract.VariableBasePath], "/"+*c.BasePath(); got != want {
		v.problem("%s puts %s before every path, so that no rule would match; set LimitsProps.Variables[%q] to it (got %q)", *c.Node().Path(), want, contract.VariableBasePath, got)
	}
}
