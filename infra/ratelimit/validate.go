package ratelimit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Validate returns the conflicts between the limits and the rest of the app. The CDK calls it.
func (v *validation) Validate() *[]*string {
	v.responses, v.methods, v.problems = map[string]bool{}, map[*attachment]int{}, nil
	for _, each := range *v.limits.Node().Root().Node().FindAll("") {
		switch c := each.(type) {
		case awsapigateway.CfnAuthorizer:
			v.authorizer(c)
		case awsapigateway.CfnMethod:
			v.method(c)
		case awsapigateway.CfnGatewayResponse:
			v.response(c)
		case awsapigateway.CfnBasePathMapping:
			v.mapping(c, c.RestApiId(), c.BasePath())
		case awsapigateway.CfnBasePathMappingV2:
			v.mapping(c, c.RestApiId(), c.BasePath())
		case awsapigatewayv2.CfnApiMapping:
			v.mapping(c, c.ApiId(), c.ApiMappingKey())
		case awslogs.CfnQueryDefinition:
			v.namespace(c)
		case awslambda.CfnUrl:
			v.functionURL(c)
		case awselasticloadbalancingv2.CfnTargetGroup:
			v.targets(c)
		}
	}
	if v.limits.props.byHost() && len(v.limits.attached) > 0 {
		v.problem("%s: got the authorizer of the limits with Identity %s, want the API's own; remove Attach, and use Equip or AddLayer",
			*v.limits.attached[0].api.Node().Path(), v.limits.props.Identity)
	}
	for _, a := range v.limits.attached {
		if a.authorizer != nil && v.methods[a] == 0 {
			v.problem("%s: got no method of the API that this app can limit, want at least one", *a.api.Node().Path())
		}
	}
	for _, f := range v.limits.layered {
		if wrapper := wrapperOf(f); wrapper != layerWrapper { // it was set after AddLayer
			v.problem("%s: %s", *f.Node().Path(), wrapperError(wrapper))
		}
	}
	for _, f := range v.limits.decide() {
		v.logLevel(f)
	}
	if v.limits.log != nil {
		v.logLevel(v.limits.log)
	}
	return &v.problems
}

// validation checks the app when the CDK synthesizes it, in one walk through all constructs. It implements constructs.IValidation.
type validation struct {
	limits    *Limits
	responses map[string]bool     // gateway responses found so far; key: path of the API and type of the response
	methods   map[*attachment]int // number of limited methods of each API
	problems  []*string
}

func (v *validation) problem(format string, args ...any) {
	v.problems = append(v.problems, jsii.Sprintf(format, args...))
}

// attachment returns the attachment of the API with this id to which c belongs, or nil.
func (v *validation) attachment(c constructs.IConstruct, api any) *attachment {
	for _, a := range v.limits.attached {
		if *awscdk.Stack_Of(c).Node().Path() == *awscdk.Stack_Of(a.api).Node().Path() && resolved(c, api) == a.id {
			return a
		}
	}
	return nil
}

// resolved returns value as it will be in the template of c.
func resolved(c constructs.IConstruct, value any) string {
	content, err := json.Marshal(awscdk.Stack_Of(c).Resolve(value))
	if err != nil {
		panic(fmt.Errorf("ratelimit: %w", err))
	}
	return string(content)
}

// authorizer reports an authorizer that invokes a function with the limiter and caches results.
func (v *validation) authorizer(c awsapigateway.CfnAuthorizer) {
	if ttl := c.AuthorizerResultTtlInSeconds(); c.AuthorizerUri() == nil || ttl != nil && *ttl == 0 {
		return
	}
	if v.invokes(resolved(c, c.AuthorizerUri())) {
		v.problem("authorizer %s caches its results, but a cached result counts nothing; set the time to live of its results to 0",
			*c.Node().Path())
	}
}

// functionURL reports the URL of a function with the limiter that counts hops, or that must verify callers and does not.
func (v *validation) functionURL(c awslambda.CfnUrl) {
	if !v.invokes(resolved(c, c.TargetFunctionArn())) {
		return
	}
	if *c.AuthType() == none {
		v.open(c)
	}
	if who := v.limits.props.Address; strings.HasPrefix(who, contract.AddressHops) {
		v.problem("%s: Address: got %s, want none behind a function URL, which keeps only the first entry of X-Forwarded-For, the one that a "+
			"client can write", *c.Node().Scope().Node().Path(), who)
	}
}

// targets reports a load balancer in front of a function whose host must verify callers.
func (v *validation) targets(c awselasticloadbalancingv2.CfnTargetGroup) {
	if to := (*c.CfnProperties())["targets"]; to != nil && v.invokes(resolved(c, to)) { // as in property
		v.open(c)
	}
}

func (v *validation) open(c constructs.IConstruct) {
	if !v.limits.props.byHost() {
		return
	}
	v.problem("%s: Identity: got %s, want %s behind a load balancer or a function URL without AWS_IAM, which verify no caller",
		*c.Node().Path(), v.limits.props.Identity, contract.IdentityWeir)
}

// invokes reports whether a URI names a function that contains the limiter.
func (v *validation) invokes(uri string) bool {
	return slices.ContainsFunc(v.limits.decide(), func(f awslambda.Function) bool {
		// For a function in another stack of the app, the URI contains an import whose name has the
		// function's logical id.
		return strings.Contains(uri, *awscdk.Stack_Of(f).GetLogicalId(f.Node().DefaultChild().(awscdk.CfnElement)))
	})
}

// decide returns the functions that contain the limiter or have its layer.
func (l *Limits) decide() []awslambda.Function { return slices.Concat(l.equipped, l.layered) }

// namespace reports another deployment with the same namespace in the same account and region: the two would share metrics, alarms
// and, in one store, counts.
func (v *validation) namespace(c awslogs.CfnQueryDefinition) {
	own := v.limits.queries[0]
	if *c.Name() == *own.Name() && *c.Node().Path() != *own.Node().Path() && *c.Stack().Environment() == *own.Stack().Environment() {
		v.problem("Namespace: %s has %s too; use different namespaces in one account and region", *c.Node().Scope().Node().Path(),
			v.limits.props.Namespace)
	}
}

// method reports a method that Attach should limit but that lacks the authorizer.
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
		v.problem("%s already has an authorizer (%s), and a method can have only one; replace it, call the limiter inside it, or limit in the "+
			"handler", name, authorization(c))
	case c.ApiKeyRequired() == true && v.limits.props.Variables[contract.VariableForeignAPIKeys] == contract.ForeignKeysRefused:
		v.problem("%s needs an API key of API Gateway, which %s=%s rejects; remove one of the two requirements", name,
			contract.VariableForeignAPIKeys, contract.ForeignKeysRefused)
	}
}

// response reports a second gateway response of the same type.
func (v *validation) response(c awsapigateway.CfnGatewayResponse) {
	a := v.attachment(c, c.RestApiId())
	if a == nil {
		return
	}
	key := *a.api.Node().Path() + " " + *c.ResponseType()
	if v.responses[key] {
		v.problem("%s has two gateway responses of type %s, want only that of the limits; remove the other", *a.api.Node().Path(),
			*c.ResponseType())
	}
	v.responses[key] = true
}

// mapping reports a mapping of a custom domain to an attached API, also in another stack, whose path is missing in BASE_PATH. The
// functions would match the rules with that path. They do not know the domain of a request: where any domain adds a path, a
// mapping that adds none is in the list as /.
func (v *validation) mapping(c constructs.IConstruct, api, path *string) {
	if api == nil || !slices.ContainsFunc(v.limits.attached, func(a *attachment) bool { return *a.api.RestApiId() == *api }) {
		return
	}
	adds, list := "/", v.limits.props.Variables[contract.VariableBasePath]
	if path != nil && *path != "(none)" {
		adds += *path
	}
	if known := strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' }); !slices.Contains(known, adds) &&
		(adds != "/" || len(known) > 0) {
		v.problem("%s adds %s before every path, so rules would not match; add it to the list LimitsProps.Variables[%q] (got %q)",
			*c.Node().Path(), adds, contract.VariableBasePath, list)
	}
}

// logLevel reports a function whose log level drops metrics:
// https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
func (v *validation) logLevel(f awslambda.Function) {
	if level := fmt.Sprint(property(f, "loggingConfig")["applicationLogLevel"]); contract.DropsMetrics(level) {
		v.problem("%s: LoggingConfig.ApplicationLogLevel: got %s, want INFO, because Lambda drops all metrics of Weir at this level; filter the "+
			"function's own lines in its code", *f.Node().Path(), level)
	}
}
