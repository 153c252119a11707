package standalone

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// hasAPIAndOrigin is a condition. conditionOf names the others.
const hasAPIAndOrigin = "HasRestApiAndCorsOrigin"

type node = map[string]any

// Template returns the template of a store in JSON. rules is the path of the rules document inside the published functions.
// It is in force until the user publishes other rules. The CDK and the construct report mistakes with a panic; Template
// returns it as an error.
func Template(store ratelimit.Store, rules string) (content []byte, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("template: %v", problem)
		}
	}()
	folder, err := os.MkdirTemp("", "weir-template-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: &folder, AnalyticsReporting: jsii.Bool(false)})
	synthesizer := awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{GenerateBootstrapVersionRule: jsii.Bool(false)})
	s := &stack{cdk: awscdk.NewStack(app, jsii.String("Weir"), &awscdk.StackProps{Synthesizer: synthesizer,
		Description: jsii.String("Weir: a rate limiter for APIs on API Gateway")})}
	s.fill(store, rules)
	template, _ := app.Synth(nil).GetStackByName(s.cdk.StackName()).Template().(node)
	resources, _ := template["Resources"].(node)
	for id, each := range resources {
		resource, _ := each.(node)
		delete(resource, "Metadata")
		restrict(id, resource)
	}
	content, err = json.MarshalIndent(template, "", " ")
	return append(content, '\n'), err
}

// restrict sets the properties that resources take from parameters, and gives a condition to what exists only with a parameter: header
// fields for pages of an origin, and the function that copies an issuer's keys.
func restrict(id string, resource node) {
	properties, _ := resource["Properties"].(node)
	key := node{"Ref": "KmsKeyArn"}
	maps.Copy(properties, map[any]node{
		"AWS::IAM::Role":      {"PermissionsBoundary": optional("PermissionsBoundary", node{"Ref": "PermissionsBoundary"})},
		"AWS::Logs::LogGroup": {"KmsKeyId": optional("KmsKeyArn", key), "RetentionInDays": node{"Ref": "LogRetentionDays"}},
		"AWS::DynamoDB::Table": {"SSESpecification": optional("KmsKeyArn", node{"SSEEnabled": true, "SSEType": "KMS",
			"KMSMasterKeyId": key})},
		"AWS::ElastiCache::ServerlessCache": {"KmsKeyId": optional("KmsKeyArn", key)},
	}[resource["Type"]])
	if name := fmt.Sprint(properties["AlarmName"]); strings.HasPrefix(id, "LimitsSigningKeys") || strings.Contains(name, "/signing-keys") {
		resource["Condition"] = conditionOf("Issuer")
	}
	if resource["Type"] != "AWS::ApiGateway::GatewayResponse" {
		return
	}
	if kind := fmt.Sprint(properties["ResponseType"]); strings.HasPrefix(kind, "DEFAULT_") {
		resource["Condition"] = hasAPIAndOrigin
		return
	}
	fields, _ := properties["ResponseParameters"].(node)
	for name, value := range fields {
		if strings.HasPrefix(name, "gatewayresponse.header.Access-Control-") {
			fields[name] = optional("CorsOrigin", value)
		}
	}
}

// conditionOf returns the name of the condition that a parameter is not empty.
func conditionOf(parameter string) string { return "Has" + strings.TrimSuffix(parameter, "Arn") }

// optional returns a property that exists only if a parameter is not empty.
func optional(parameter string, value any) node {
	return node{"Fn::If": []any{conditionOf(parameter), value, node{"Ref": "AWS::NoValue"}}}
}

type stack struct{ cdk awscdk.Stack }

func (s *stack) fill(store ratelimit.Store, rules string) {
	s.newParameters()
	s.newRules()
	if store == ratelimit.ElastiCache { // only functions in a VPC need a copy of the issuer's keys
		s.has("Issuer")
	}
	l := ratelimit.NewLimits(s.cdk, jsii.String("Limits"), &ratelimit.LimitsProps{
		Namespace: s.value("Namespace"), Store: store, Rules: rules, RulesFrom: contract.RulesTable, Code: s.code, Reports: true,
		Architecture: s.value("Architecture"),
		AlarmAction:  awscloudwatchactions.NewSnsAction(s.newTopic()),
		Address:      s.value("Address"), OriginSecret: s.value("OriginSecret"), PreviousOriginSecret: s.value("PreviousOriginSecret"),
		Identity: s.value("Identity"), UserClaim: s.value("UserClaim"), TierClaim: s.value("TierClaim"), Claims: []string{s.value("Claims")},
		CORSOrigins: []string{s.value("CorsOrigin")},
		Tokens:      &ratelimit.Tokens{Issuer: s.value("Issuer"), Audience: s.value("Audience"), JWKS: s.value("JWKS")},
		Variables: map[string]string{
			contract.VariableBasePath: s.value("BasePath"), contract.VariableRequireCredential: s.value("RequireCredential"),
			contract.VariableAPIKeyHeader: s.value("ApiKeyHeader"), contract.VariableForeignAPIKeys: s.value("ForeignApiKeys"),
			contract.VariableJWTAlgorithms: s.value("JwtAlgorithms"),
		},
	})
	api := awsapigateway.RestApi_FromRestApiId(s.cdk, jsii.String("Api"), jsii.String(s.value("RestApiId")))
	authorizer, given := l.NewAuthorizer(api), s.has("RestApiId")
	api.Node().FindChild(jsii.String("Limiter")).(awscdk.CfnElement).OverrideLogicalId(jsii.String("Authorizer"))
	s.onlyIf(given, api)
	s.output("AuthorizerId", authorizer).SetCondition(given)
	s.output("RecordsTable", l.Records().TableName())
	s.output("ReportFunctionArn", l.ReportFunction().FunctionArn())
	s.newLayer(l)
	s.output("DashboardName", l.NewDashboard(s.cdk))
	logs := awslogs.LogGroup_FromLogGroupName(s.cdk, jsii.String("AccessLog"), jsii.String(s.value("AccessLogGroup")))
	alarms := constructs.NewConstruct(s.cdk, jsii.String("AccessLogAlarms"))
	l.WatchAccessLog(alarms, logs)
	s.onlyIf(s.has("AccessLogGroup"), alarms)
}

// newLayer adds the layer, and the outputs that functions of other stacks need to use it.
func (s *stack) newLayer(l *ratelimit.Limits) {
	// users of CfnInclude refer to these logical ids
	layer, policy, variables := l.Layer(), l.NewLayerPolicy(), l.LayerVariables()
	for id, c := range map[string]constructs.IConstruct{"Layer": layer, "LayerPolicy": policy} {
		c.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String(id))
	}
	s.output("LayerArn", layer.LayerVersionArn())
	s.output("LayerPolicyArn", policy.ManagedPolicyArn())
	for _, name := range []string{contract.VariableOriginSecret, contract.VariableSecretBefore} {
		delete(variables, contract.LayerVariable(name)) // an output would show it
	}
	behind := contract.LayerVariable(contract.VariableBehindAuthorizer)
	variables[behind] = awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String(conditionOf("RestApiId")), variables[behind], "false"), nil)
	s.output("LayerVariables", s.cdk.ToJsonString(variables, nil))
	// A template cannot parse the JSON in LayerVariables. So the only value that is no parameter is an output of its own.
	s.output("Store", variables[contract.LayerVariable(contract.VariableStore)])
	if subnets, group := l.Network(); subnets != nil {
		s.output("LayerSubnetIds", awscdk.Fn_Join(jsii.String(","), subnets))
		s.output("LayerSecurityGroupId", group)
	}
}

// parameter is a parameter of the template, which CloudFormation checks before it creates resources.
type parameter struct {
	id, text string
	value    string   // default
	pattern  string   // "" accepts every text
	want     string   // what the pattern accepts
	of       []string // accepted values; nil means all that the pattern accepts
}

// Patterns of parameters.
const (
	algorithm = "((RS|PS|ES)(256|384|512)|EdDSA)"
	basePath  = "(/|(/[A-Za-z0-9$_~+!*'()-][A-Za-z0-9$_.~+!*'()-]*)+)"
	origin    = `(\*|(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?)?`
)

var secret = fmt.Sprintf("([!-~]{%d,})?", contract.MinOriginSecret)

var parameters = []parameter{
	{id: "Namespace", text: "Separates deployments in keys, metrics and names. Two deployments in one account and region need different " +
		"namespaces.", value: "main", pattern: "[a-z][a-z0-9]*(-[a-z0-9]+)*",
		want: "1 to 32 lower-case letters, digits and single hyphens, starting with a letter"},
	{id: "CodeBucket", text: "The S3 bucket, in this region, with the zip files of the release.", pattern: ".{3,}", want: "a bucket"},
	{id: "CodePrefix", text: "The prefix of the zip files in the bucket, such as weir/v1.0.0/.", pattern: "([^/]+/)*",
		want: "empty, or a path that ends with / and does not begin with it"},
	{id: "Architecture", text: "The architecture of the functions.", value: "arm64", of: []string{"arm64", "x86_64"}},
	{id: "RestApiId", text: "The id of the REST API to limit. Empty means none.", pattern: "([a-z0-9]{10})?", want: "the id of a REST API, " +
		"such as a1b2c3d4e5; the id of an HTTP API does not work, because an HTTP API cannot answer 429 from an authorizer"},
	{id: "Identity", text: "What identifies callers: weir verifies tokens and API keys, host takes the caller that the authorizer of the " +
		"API, IAM or mutual TLS has verified, host+keys also reads API keys.", value: contract.IdentityWeir,
		of: []string{contract.IdentityWeir, contract.IdentityHost, contract.IdentityHostKeys}},
	{id: "UserClaim", text: "The path of the claim with the user, such as username.", value: "sub"},
	{id: "TierClaim", text: "The path of the claim with the tier, such as cognito:groups or realm_access.roles.", value: "tier"},
	{id: "Claims", text: "More names of claims for rules, such as org=org.id,team=https://example.com/team. Empty means none."},
	{id: "Issuer", text: "The claim iss of accepted JWTs. Empty means that tokens are ignored."},
	{id: "Audience", text: "The claim aud of accepted JWTs, or client_id of those without it; or several, separated by commas. Required " +
		"with Issuer."},
	{id: "JWKS", text: "The https URL of the issuer's public keys. Required with Issuer.", pattern: "(https://.+)?", want: "an https URL"},
	{id: "JwtAlgorithms", text: "The signature algorithms of accepted JWTs, such as RS256,ES256.", value: "RS256",
		pattern: algorithm + "(," + algorithm + ")*",
		want:    "algorithms with a public key, such as RS256, ES256 and EdDSA, separated by commas without spaces"},
	{id: "RequireCredential", text: "true rejects callers without a token or an API key with 401.", value: "false",
		of: []string{"true", "false"}},
	{id: "ApiKeyHeader", text: "The header field of API keys. none means that API keys identify no caller.", value: "x-api-key",
		pattern: "[A-Za-z0-9-]{1,64}", want: "the name of a header field, or none"},
	{id: "ForeignApiKeys", text: "Requests with an API key that is not Weir's, such as a key of a usage plan: ignore identifies the caller " +
		"without the key, refuse answers 401, accept looks up keys of weir keys import.", value: contract.ForeignKeysIgnored,
		of: []string{contract.ForeignKeysIgnored, contract.ForeignKeysRefused, contract.ForeignKeysAccepted}},
	{id: "Address", text: "Source of the client's address: host, or behind a CDN or a proxy cloudfront or hops:N, which need OriginSecret. " +
		"infra/edge/README.md describes them.", value: contract.AddressHost, pattern: "host|cloudfront|hops:([1-9]|1[0-6])",
		want: "host, cloudfront, or hops:N with N from 1 to 16"},
	{id: "OriginSecret", text: "The value of Weir-Origin-Secret in requests from the CDN or the proxy.", pattern: secret,
		want: "empty, or at least 32 characters without spaces"},
	{id: "PreviousOriginSecret", text: "A second valid value of Weir-Origin-Secret, until every CDN or proxy sends the first. " +
		"Empty means none.", pattern: secret, want: "empty, or at least 32 characters without spaces"},
	{id: "CorsOrigin", text: "The origin whose pages may read refusals, such as https://app.example. * means every origin. Empty means none.",
		pattern: origin, want: "empty, *, or one https origin without a path"},
	{id: "BasePath", text: "The paths that custom domains add before every path, such as /v1,/orders/v2, and / for a domain that adds none " +
		"beside them. Empty means none.", pattern: "(" + basePath + "(," + basePath + ")*)?",
		want: "empty, or paths such as / or /v1, separated by commas without spaces"},
	{id: "AlarmEmail", text: "The address that alarms notify. Empty means that no alarm notifies."},
	{id: "AccessLogGroup", text: "The log group of the REST API's access log, for the alarm authorizer-failed, and for limits that count " +
		"failures or bytes. Its lines are JSON with responseType, report, status and responseLength. Empty means none."},
	{id: "PermissionsBoundary", text: "The ARN of the policy that bounds the permissions of all roles. Empty means none.",
		pattern: "(arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+)?", want: "empty, or the ARN of a managed policy"},
	{id: "KmsKeyArn", text: "The ARN of the KMS key that encrypts the tables, the cache and the logs. Empty means keys of AWS.",
		pattern: "(arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+)?", want: "empty, or the ARN of a key; not an alias"},
	{id: "LogRetentionDays", text: "The retention of the functions' logs, in days.", value: "30", of: strings.Fields("1 3 5 7 14 30 60 90 " +
		"120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653")},
}

func (s *stack) newParameters() {
	for _, p := range parameters {
		made := &awscdk.CfnParameterProps{Type: jsii.String("String"), Description: &p.text, Default: &p.value}
		switch p.id {
		case "CodeBucket":
			made.Default = nil
		case "Namespace":
			made.MaxLength = jsii.Number(32)
		}
		if p.pattern == secret {
			made.NoEcho = jsii.Bool(true)
		}
		if p.pattern != "" {
			made.AllowedPattern, made.ConstraintDescription = &p.pattern, &p.want
		}
		if p.of != nil {
			made.AllowedValues = jsii.Strings(p.of...)
		}
		awscdk.NewCfnParameter(s.cdk, &p.id, made)
	}
	for _, p := range []string{"CorsOrigin", "PermissionsBoundary", "KmsKeyArn"} {
		s.has(p)
	}
	awscdk.NewCfnCondition(s.cdk, jsii.String(hasAPIAndOrigin),
		&awscdk.CfnConditionProps{Expression: awscdk.Fn_ConditionAnd(s.given("RestApiId"), s.given("CorsOrigin"))})
}

// newRules adds what CloudFormation checks of several parameters.
func (s *stack) newRules() {
	rule := func(id string, when awscdk.ICfnRuleConditionExpression, description string, want awscdk.ICfnConditionExpression) {
		awscdk.NewCfnRule(s.cdk, &id, &awscdk.CfnRuleProps{RuleCondition: when, Assertions: &[]*awscdk.CfnRuleAssertion{
			{Assert: want, AssertDescription: &description},
		}})
	}
	isNot := func(id, value string) awscdk.ICfnRuleConditionExpression {
		return awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.value(id), value))
	}
	rule("TokensAreComplete", s.given("Issuer"), "Issuer needs Audience and JWKS; otherwise the functions would accept tokens for other APIs",
		awscdk.Fn_ConditionAnd(s.given("Audience"), s.given("JWKS")))
	rule("HostIdentifies", isNot("Identity", contract.IdentityWeir), "Identity host needs an empty RestApiId and Issuer: the authorizer of "+
		"your API verifies callers", awscdk.Fn_ConditionAnd(awscdk.Fn_ConditionEquals(s.value("RestApiId"), ""),
		awscdk.Fn_ConditionEquals(s.value("Issuer"), "")))
	rule("AddressHasASecret", isNot("Address", contract.AddressHost), "Address needs OriginSecret; otherwise every client could choose its "+
		"address", s.given("OriginSecret"))
}

// value returns the value of a parameter.
func (s *stack) value(id string) string {
	return *s.cdk.Node().FindChild(&id).(awscdk.CfnParameter).ValueAsString()
}

// given is true if a parameter is not empty.
func (s *stack) given(id string) awscdk.ICfnRuleConditionExpression {
	return awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.value(id), ""))
}

// has returns the condition that a parameter is not empty.
func (s *stack) has(id string) awscdk.CfnCondition {
	name := conditionOf(id)
	if made, ok := s.cdk.Node().TryFindChild(&name).(awscdk.CfnCondition); ok {
		return made
	}
	return awscdk.NewCfnCondition(s.cdk, &name, &awscdk.CfnConditionProps{Expression: s.given(id)})
}

func (s *stack) code(bundle string) awslambda.Code {
	id := jsii.String("Code")
	bucket, ok := s.cdk.Node().TryFindChild(id).(awss3.IBucket)
	if !ok {
		bucket = awss3.Bucket_FromBucketName(s.cdk, id, jsii.String(s.value("CodeBucket")))
	}
	return awslambda.Code_FromBucketV2(bucket, jsii.String(s.value("CodePrefix")+contract.Archive(bundle, s.value("Architecture"))), nil)
}

func (s *stack) newTopic() awssns.ITopic {
	topic := awssns.NewTopic(s.cdk, jsii.String("Alarms"), nil)
	subscription := awssns.NewCfnSubscription(s.cdk, jsii.String("AlarmEmailSubscription"), &awssns.CfnSubscriptionProps{
		Protocol: jsii.String("email"), TopicArn: topic.TopicArn(), Endpoint: jsii.String(s.value("AlarmEmail")),
	})
	subscription.CfnOptions().SetCondition(s.has("AlarmEmail"))
	return topic
}

func (s *stack) onlyIf(condition awscdk.CfnCondition, scopes ...constructs.IConstruct) {
	for _, scope := range scopes {
		for _, c := range *scope.Node().FindAll("") {
			if r, ok := c.(awscdk.CfnResource); ok {
				r.CfnOptions().SetCondition(condition)
			}
		}
	}
}

func (s *stack) output(id string, value *string) awscdk.CfnOutput {
	return awscdk.NewCfnOutput(s.cdk, jsii.String(id), &awscdk.CfnOutputProps{Value: value})
}
