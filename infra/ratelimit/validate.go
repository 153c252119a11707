package ratelimit

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Validate implements constructs.IValidation: it returns what is wrong with the limits when
// the app is synthesized, wherever in the app it is.
func (l *Limits) Validate() *[]*string {
	v := validation{limits: l}
	for _, a := range l.attached {
		v.responses = append(v.responses, map[string]bool{})
		v.apis = append(v.apis, v.text(a.api, a.api.RestApiId()))
	}
	for _, each := range *l.scope.Node().Root().Node().FindAll("") {
		switch c := each.(type) {
		case awsapigateway.CfnAuthorizer:
			v.authorizer(c)
		case awsapigateway.CfnMethod:
			v.method(c)
		case awsapigateway.CfnGatewayResponse:
			v.response(c)
		case awsapigateway.CfnBasePathMapping:
			v.basePath(c)
		case awscloudwatch.CfnInsightRule:
			v.namespace(c)
		}
	}
	return &v.problems
}

// validation is a look at an app.
type validation struct {
	limits    *Limits
	apis      []string          // the ids of the APIs attached, as templates have them
	responses []map[string]bool // the types of each's gateway responses
	problems  []*string
}

func (v *validation) problem(format string, args ...any) {
	v.problems = append(v.problems, jsii.Sprintf(format, args...))
}

// attached returns which API of those attached a resource is of, -1 if of none.
func (v *validation) attached(c constructs.IConstruct, api any) int {
	for i, a := range v.limits.attached {
		if *awscdk.Stack_Of(c).Node().Path() == *awscdk.Stack_Of(a.api).Node().Path() && v.text(c, api) == v.apis[i] {
			return i
		}
	}
	return -1
}

// text returns a value as the template of a construct's stack has it.
func (v *validation) text(c constructs.IConstruct, value any) string {
	resolved, err := json.Marshal(awscdk.Stack_Of(c).Resolve(value))
	if err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return string(resolved)
}

// authorizer refuses to have answers cached, whichever of the functions with the limiter in
// them gives them.
func (v *validation) authorizer(c awsapigateway.CfnAuthorizer) {
	if ttl := c.AuthorizerResultTtlInSeconds(); c.AuthorizerUri() == nil || ttl != nil && *ttl == 0 {
		return
	}
	uri := v.text(c, c.AuthorizerUri())
	for _, f := range v.limits.functions() {
		// Another stack of the app imports the function by a name that has its id too.
		if id := awscdk.Stack_Of(f).GetLogicalId(f); strings.Contains(uri, *id) {
			v.problem("authorizer %s caches its answers, and a cached answer counts nothing: set its results' time to live to 0", *c.Node().Path())
			return
		}
	}
}

// functions returns the functions with the limiter in them, and the alias of one.
func (l *Limits) functions() (all []awscdk.CfnElement) {
	for _, f := range l.equipped {
		all = append(all, f.Node().DefaultChild().(awslambda.CfnFunction))
	}
	if alias, ok := l.invoked.Node().DefaultChild().(awslambda.CfnAlias); ok {
		all = append(all, alias)
	}
	return all
}

// namespace refuses a second deployment of one namespace in an account and region.
func (v *validation) namespace(c awscloudwatch.CfnInsightRule) {
	own := v.limits.refusedMost
	if *c.RuleName() == *own.RuleName() && *c.Node().Path() != *own.Node().Path() && *c.Stack().Environment() == *own.Stack().Environment() {
		v.problem("Namespace %s is that of %s too: two in one account and region have two", v.limits.props.Namespace, *c.Node().Scope().Node().Path())
	}
}

func (v *validation) method(c awsapigateway.CfnMethod) {
	i := v.attached(c, c.RestApiId())
	if i < 0 || v.limits.attached[i].authorizer == nil || !v.limits.attached[i].isMeant(c) {
		return
	}
	name := "method " + strings.TrimSuffix(*c.Node().Path(), "/Resource")
	switch ours := v.limits.attached[i].authorizer.Ref(); {
	case authorization(c) == none:
		v.problem("%s is not limited: attach the limits after the API has all its methods", name)
	case c.AuthorizerId() == nil || *c.AuthorizerId() != *ours:
		v.problem("%s has an authorizer of its own (%s), and a method has one: replace that one, ask the limiter inside it, or limit in the handler", name, authorization(c))
	case c.ApiKeyRequired() == true:
		v.problem("%s asks for a key of API Gateway's, in the field x-api-key by which the limiter knows its own: drop one of the two", name)
	}
}

func (v *validation) response(c awsapigateway.CfnGatewayResponse) {
	i := v.attached(c, c.RestApiId())
	if i < 0 {
		return
	}
	if kind := *c.ResponseType(); v.responses[i][kind] {
		v.problem("%s: the API has a gateway response of type %s twice, and the limits need theirs", *c.Node().Path(), kind)
	} else {
		v.responses[i][kind] = true
	}
}

// basePath refuses a domain that puts a path before that of the rules, by which they would
// match nothing.
func (v *validation) basePath(c awsapigateway.CfnBasePathMapping) {
	if v.attached(c, c.RestApiId()) < 0 || c.BasePath() == nil || *c.BasePath() == "" {
		return
	}
	if got, want := v.limits.props.Variables[contract.VariableBasePath], "/"+*c.BasePath(); got != want {
		v.problem("%s puts %s before every path, so that no rule would match: set it as the variable BASE_PATH (LimitsProps.Variables), got %q", *c.Node().Path(), want, got)
	}
}
