package standalone

import (
	"encoding/json"
	"fmt"
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

// The conditions of the template.
const (
	hasAPI          = "HasRestApi"
	hasAccessLog    = "HasAccessLog"
	hasAlarmEmail   = "HasAlarmEmail"
	hasIssuer       = "HasIssuer"
	hasOrigin       = "HasCorsOrigin"
	hasAPIAndOrigin = "HasRestApiAndCorsOrigin"
	hasBoundary     = "HasPermissionsBoundary"
	hasKey          = "HasKmsKey"
	description     = "Weir: a rate limiter for APIs on API Gateway"
)

// Logical ids that users of CfnInclude refer to.
const (
	authorizerID  = "Authorizer"
	layerID       = "Layer"
	layerPolicyID = "LayerPolicy"
)

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
	s := &stack{cdk: awscdk.NewStack(app, jsii.String("Weir"), &awscdk.StackProps{Description: jsii.String(description),
		Synthesizer: synthesizer})}
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

// restrict gives a condition to what exists only with a parameter: header fields for pages of an origin, and the
// function that copies an issuer's keys.
func restrict(id string, resource node) {
	properties, _ := resource["Properties"].(node)
	if name := fmt.Sprint(properties["AlarmName"]); strings.HasPrefix(id, "LimitsSigningKeys") || strings.Contains(name, "/signing-keys") {
		resource["Condition"] = hasIssuer
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
		if strings.HasPrefix(name, "gatewayresponse.header.Access-Control-") || name == "gatewayresponse.header.Vary" {
			fields[name] = optional(hasOrigin, value)
		}
	}
}

type stack struct {
	cdk awscdk.Stack

	namespace, bucket, prefix, architecture, api awscdk.CfnParameter
	issuer, audience, jwks, email, accessLog     awscdk.CfnParameter
	identity, userClaim, tierClaim, claims       awscdk.CfnParameter
	origin, basePath, requireCredential          awscdk.CfnParameter
	apiKeyHeader, foreignAPIKeys, algorithms     awscdk.CfnParameter
	address, secret, secretBefore                awscdk.CfnParameter
	boundary, key, retention                     awscdk.CfnParameter
}

func (s *stack) fill(store ratelimit.Store, rules string) {
	s.newParameters()
	if store == ratelimit.ElastiCache { // only functions in a VPC need a copy of the issuer's keys
		s.condition(hasIssuer, s.issuer)
	}
	p := &ratelimit.LimitsProps{
		Namespace: *s.namespace.ValueAsString(), Store: store, Rules: rules, RulesFrom: contract.RulesTable, Code: s.code, Reports: true,
		Architecture: awslambda.Architecture_Custom(s.architecture.ValueAsString(), nil),
		AlarmAction:  awscloudwatchactions.NewSnsAction(s.newTopic()),
		Address:      *s.address.ValueAsString(), OriginSecret: *s.secret.ValueAsString(), PreviousOriginSecret: *s.secretBefore.ValueAsString(),
		Identity: *s.identity.ValueAsString(), UserClaim: *s.userClaim.ValueAsString(), TierClaim: *s.tierClaim.ValueAsString(),
		Claims: []string{*s.claims.ValueAsString()},
		Variables: map[string]string{
			contract.VariableBasePath: *s.basePath.ValueAsString(), contract.VariableRequireCredential: *s.requireCredential.ValueAsString(),
			contract.VariableAPIKeyHeader: *s.apiKeyHeader.ValueAsString(), contract.VariableForeignAPIKeys: *s.foreignAPIKeys.ValueAsString(),
			contract.VariableJWTAlgorithms: *s.algorithms.ValueAsString(),
		},
	}
	p.CORSOrigins = []string{*s.origin.ValueAsString()}
	p.Tokens = &ratelimit.Tokens{Issuer: *s.issuer.ValueAsString(), Audience: *s.audience.ValueAsString(), JWKS: *s.jwks.ValueAsString()}
	l := ratelimit.NewLimits(s.cdk, jsii.String("Limits"), p)
	api := awsapigateway.RestApi_FromRestApiId(s.cdk, jsii.String("Api"), s.api.ValueAsString())
	authorizer := l.NewAuthorizer(api)
	api.Node().FindChild(jsii.String("Limiter")).(awscdk.CfnElement).OverrideLogicalId(jsii.String(authorizerID))
	s.onlyIf(api, s.condition(hasAPI, s.api))
	s.output("AuthorizerId", authorizer).SetCondition(s.cdk.Node().FindChild(jsii.String(hasAPI)).(awscdk.CfnCondition))
	s.output("RecordsTable", l.Records().TableName())
	s.output("ReportFunctionArn", l.ReportFunction().FunctionArn())
	s.newLayer(l)
	s.output("DashboardName", l.NewDashboard(s.cdk, ratelimit.Dashboard{}))
	logs := awslogs.LogGroup_FromLogGroupName(s.cdk, jsii.String("AccessLog"), s.accessLog.ValueAsString())
	l.ReportFromLog(logs)
	alarms := constructs.NewConstruct(s.cdk, jsii.String("AccessLogAlarms"))
	l.WatchAccessLog(alarms, logs)
	given := s.condition(hasAccessLog, s.accessLog)
	s.onlyIf(l.Node().FindChild(jsii.String("ReportAccessLog")), given)
	s.onlyIf(alarms, given)
	s.override()
}

// override sets the properties that all resources of a type take from parameters.
func (s *stack) override() {
	boundary, key := optional(hasBoundary, node{"Ref": s.boundary.LogicalId()}), node{"Ref": s.key.LogicalId()}
	properties := map[string]node{
		"AWS::IAM::Role":      {"PermissionsBoundary": boundary},
		"AWS::Logs::LogGroup": {"KmsKeyId": optional(hasKey, key), "RetentionInDays": node{"Ref": s.retention.LogicalId()}},
		"AWS::DynamoDB::Table": {"SSESpecification": optional(hasKey, node{"SSEEnabled": true, "SSEType": "KMS",
			"KMSMasterKeyId": key})},
		"AWS::ElastiCache::ServerlessCache": {"KmsKeyId": optional(hasKey, key)},
	}
	for _, c := range *s.cdk.Node().FindAll("") {
		if r, ok := c.(awscdk.CfnResource); ok {
			for name, value := range properties[*r.CfnResourceType()] {
				r.AddPropertyOverride(jsii.String(name), value)
			}
		}
	}
}

// optional returns a property that exists only if the condition holds.
func optional(condition string, value any) node {
	return node{"Fn::If": []any{condition, value, node{"Ref": "AWS::NoValue"}}}
}

// newLayer adds the layer, and the outputs that functions of other stacks need to use it.
func (s *stack) newLayer(l *ratelimit.Limits) {
	layer, policy, variables := l.Layer(), l.NewLayerPolicy(), l.LayerVariables()
	for id, c := range map[string]constructs.IConstruct{layerID: layer, layerPolicyID: policy} {
		c.Node().DefaultChild().(awscdk.CfnElement).OverrideLogicalId(jsii.String(id))
	}
	s.output("LayerArn", layer.LayerVersionArn())
	s.output("LayerPolicyArn", policy.ManagedPolicyArn())
	for _, name := range []string{contract.VariableOriginSecret, contract.VariableSecretBefore} {
		delete(variables, contract.LayerVariable(name)) // an output would show it
	}
	behind := contract.LayerVariable(contract.VariableBehindAuthorizer)
	variables[behind] = awscdk.Token_AsString(awscdk.Fn_ConditionIf(jsii.String(hasAPI), variables[behind], "false"), nil)
	s.output("LayerVariables", s.cdk.ToJsonString(variables, nil))
	// A template cannot parse the JSON in LayerVariables. So values that are no parameters are
	// outputs of their own.
	for id, name := range map[string]string{"CountersTable": contract.VariableTable, "CacheURL": contract.VariableRedisURL} {
		if value := variables[contract.LayerVariable(name)]; value != nil {
			s.output(id, value)
		}
	}
	if subnets, group := l.Network(); subnets != nil {
		s.output("LayerSubnetIds", awscdk.Fn_Join(jsii.String(","), subnets))
		s.output("LayerSecurityGroupId", group)
	}
}

// newParameters adds the parameters, which CloudFormation checks before it creates resources.
func (s *stack) newParameters() {
	add := func(id, text string, p awscdk.CfnParameterProps) awscdk.CfnParameter {
		p.Type, p.Description = jsii.String("String"), jsii.String(text)
		return awscdk.NewCfnParameter(s.cdk, jsii.String(id), &p)
	}
	empty := jsii.String("")
	s.namespace = add("Namespace", "Separates deployments in keys, metrics and names. Two deployments in one account and region need "+
		"different namespaces.", awscdk.CfnParameterProps{
		Default: jsii.String("main"), AllowedPattern: jsii.String("[a-z][a-z0-9]*(-[a-z0-9]+)*"), MaxLength: jsii.Number(32),
		ConstraintDescription: jsii.String("1 to 32 lower-case letters, digits and single hyphens, starting with a letter"),
	})
	s.bucket = add("CodeBucket", "The S3 bucket, in this region, with the zip files of the release.",
		awscdk.CfnParameterProps{MinLength: jsii.Number(3)})
	s.prefix = add("CodePrefix", "The prefix of the zip files in the bucket, such as weir/v1.0.0/.", awscdk.CfnParameterProps{
		Default: empty, AllowedPattern: jsii.String("([^/]+/)*"), ConstraintDescription: jsii.String("empty, or a path that ends with / and " +
			"does not begin with it"),
	})
	s.architecture = add("Architecture", "The architecture of the functions.", awscdk.CfnParameterProps{Default: jsii.String("arm64"),
		AllowedValues: jsii.Strings("arm64", "x86_64")})
	s.api = add("RestApiId", "The id of the REST API to limit. Empty means none.", awscdk.CfnParameterProps{
		Default: empty, AllowedPattern: jsii.String("([a-z0-9]{10})?"),
		ConstraintDescription: jsii.String("the id of a REST API, such as a1b2c3d4e5; the id of an HTTP API does not work, because an HTTP " +
			"API cannot answer 429 from an authorizer"),
	})
	s.identity = add("Identity", "What identifies callers: weir verifies tokens and API keys, host takes the caller that the authorizer of "+
		"the API, IAM or mutual TLS has verified, host+keys also reads API keys.", awscdk.CfnParameterProps{
		Default:       jsii.String(contract.IdentityWeir),
		AllowedValues: jsii.Strings(contract.IdentityWeir, contract.IdentityHost, contract.IdentityHostKeys),
	})
	s.userClaim = add("UserClaim", "The path of the claim with the user, such as username.",
		awscdk.CfnParameterProps{Default: jsii.String("sub")})
	s.tierClaim = add("TierClaim", "The path of the claim with the tier, such as cognito:groups or realm_access.roles.",
		awscdk.CfnParameterProps{Default: jsii.String("tier")})
	s.claims = add("Claims", "More names of claims for rules, such as org=org.id,team=https://example.com/team. Empty means none.",
		awscdk.CfnParameterProps{Default: empty})
	s.issuer = add("Issuer", "The claim iss of accepted JWTs. Empty means that tokens are ignored.", awscdk.CfnParameterProps{Default: empty})
	s.audience = add("Audience", "The claim aud of accepted JWTs, or client_id of those without it; or several, separated by commas. "+
		"Required with Issuer.", awscdk.CfnParameterProps{Default: empty})
	s.jwks = add("JWKS", "The https URL of the issuer's public keys. Required with Issuer.", awscdk.CfnParameterProps{Default: empty,
		AllowedPattern: jsii.String("(https://.+)?"), ConstraintDescription: jsii.String("an https URL")})
	const algorithm = "((RS|PS|ES)(256|384|512)|EdDSA)"
	s.algorithms = add("JwtAlgorithms", "The signature algorithms of accepted JWTs, such as RS256,ES256.", awscdk.CfnParameterProps{
		Default: jsii.String("RS256"), AllowedPattern: jsii.String(algorithm + "(," + algorithm + ")*"),
		ConstraintDescription: jsii.String("algorithms with a public key, such as RS256, ES256 and EdDSA, separated by commas without spaces"),
	})
	s.requireCredential = add("RequireCredential", "true rejects callers without a token or an API key with 401.",
		awscdk.CfnParameterProps{Default: jsii.String("false"), AllowedValues: jsii.Strings("true", "false")})
	s.apiKeyHeader = add("ApiKeyHeader", "The header field of API keys. none means that API keys identify no caller.",
		awscdk.CfnParameterProps{Default: jsii.String("x-api-key"), AllowedPattern: jsii.String("[A-Za-z0-9-]{1,64}")})
	s.foreignAPIKeys = add("ForeignApiKeys", "Requests with an API key that is not Weir's, such as a key of a usage plan: ignore "+
		"identifies the caller without the key, refuse answers 401, accept looks up keys of weir keys import.", awscdk.CfnParameterProps{
		Default: jsii.String(contract.ForeignKeysIgnored), AllowedValues: jsii.Strings(contract.ForeignKeysIgnored, contract.ForeignKeysRefused,
			contract.ForeignKeysAccepted),
	})
	s.address = add("Address", "Source of the client's address: host, or behind a CDN or a proxy cloudfront or hops:N, which need "+
		"OriginSecret. infra/edge/README.md describes them.", awscdk.CfnParameterProps{
		Default: jsii.String(contract.AddressHost), AllowedPattern: jsii.String("host|cloudfront|hops:([1-9]|1[0-6])"),
		ConstraintDescription: jsii.String("host, cloudfront, or hops:N with N from 1 to 16"),
	})
	secret := func(id, text string) awscdk.CfnParameter {
		return add(id, text, awscdk.CfnParameterProps{
			Default: empty, NoEcho: jsii.Bool(true), AllowedPattern: jsii.Sprintf("([!-~]{%d,})?", contract.MinOriginSecret),
			ConstraintDescription: jsii.Sprintf("empty, or at least %d characters without spaces", contract.MinOriginSecret),
		})
	}
	s.secret = secret("OriginSecret", "The value of Weir-Origin-Secret in requests from the CDN or the proxy.")
	s.secretBefore = secret("PreviousOriginSecret", "A second valid value of Weir-Origin-Secret, until every CDN or proxy sends the first. "+
		"Empty means none.")
	s.origin = add("CorsOrigin", "The origin whose pages may read refusals, such as https://app.example. * means every origin. Empty means "+
		"none.", awscdk.CfnParameterProps{
		Default: empty, AllowedPattern: jsii.String(`(\*|(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?)?`),
		ConstraintDescription: jsii.String("empty, *, or one https origin without a path"),
	})
	const basePath = "(/|(/[A-Za-z0-9$_~+!*'()-][A-Za-z0-9$_.~+!*'()-]*)+)"
	s.basePath = add("BasePath", "The paths that custom domains add before every path, such as /v1,/orders/v2, and / for a domain that "+
		"adds none beside them. Empty means none.", awscdk.CfnParameterProps{
		Default: empty, AllowedPattern: jsii.String("(" + basePath + "(," + basePath + ")*)?"),
		ConstraintDescription: jsii.String("empty, or paths such as / or /v1, separated by commas without spaces"),
	})
	s.email = add("AlarmEmail", "The address that alarms notify. Empty means that no alarm notifies.",
		awscdk.CfnParameterProps{Default: empty})
	s.accessLog = add("AccessLogGroup", "The log group of the REST API's access log, for the alarm authorizer-failed, and for limits that "+
		"count failures or bytes. Its lines are JSON with responseType, report, status and responseLength. Empty means none.",
		awscdk.CfnParameterProps{Default: empty})
	s.newAccountParameters(add)
	s.condition(hasOrigin, s.origin)
	awscdk.NewCfnCondition(s.cdk, jsii.String(hasAPIAndOrigin),
		&awscdk.CfnConditionProps{Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionOr(
			awscdk.Fn_ConditionEquals(s.api.ValueAsString(), ""), awscdk.Fn_ConditionEquals(s.origin.ValueAsString(), ""),
		))})
	awscdk.NewCfnRule(s.cdk, jsii.String("TokensAreComplete"), &awscdk.CfnRuleProps{
		RuleCondition: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.issuer.ValueAsString(), "")),
		Assertions: &[]*awscdk.CfnRuleAssertion{{
			Assert: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionOr(awscdk.Fn_ConditionEquals(s.audience.ValueAsString(), ""),
				awscdk.Fn_ConditionEquals(s.jwks.ValueAsString(), ""))),
			AssertDescription: jsii.String("Issuer needs Audience and JWKS; otherwise the functions would accept tokens for other APIs"),
		}},
	})
	awscdk.NewCfnRule(s.cdk, jsii.String("HostIdentifies"), &awscdk.CfnRuleProps{
		RuleCondition: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.identity.ValueAsString(), contract.IdentityWeir)),
		Assertions: &[]*awscdk.CfnRuleAssertion{{
			Assert: awscdk.Fn_ConditionAnd(awscdk.Fn_ConditionEquals(s.api.ValueAsString(), ""),
				awscdk.Fn_ConditionEquals(s.issuer.ValueAsString(), "")),
			AssertDescription: jsii.String("Identity host needs an empty RestApiId and Issuer: the authorizer of your API verifies callers"),
		}},
	})
	awscdk.NewCfnRule(s.cdk, jsii.String("AddressHasASecret"), &awscdk.CfnRuleProps{
		RuleCondition: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.address.ValueAsString(), contract.AddressHost)),
		Assertions: &[]*awscdk.CfnRuleAssertion{{
			Assert:            awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(s.secret.ValueAsString(), "")),
			AssertDescription: jsii.String("Address needs OriginSecret; otherwise every client could choose its address"),
		}},
	})
}

// newAccountParameters adds the parameters for what an account prescribes: a boundary of roles, a key, and
// the retention of logs.
func (s *stack) newAccountParameters(add func(id, text string, p awscdk.CfnParameterProps) awscdk.CfnParameter) {
	empty := jsii.String("")
	s.boundary = add("PermissionsBoundary", "The ARN of the policy that bounds the permissions of all roles. Empty means none.",
		awscdk.CfnParameterProps{
			Default: empty, AllowedPattern: jsii.String("(arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+)?"),
			ConstraintDescription: jsii.String("empty, or the ARN of a managed policy"),
		})
	s.key = add("KmsKeyArn", "The ARN of the KMS key that encrypts the tables, the cache and the logs. Empty means keys of AWS.",
		awscdk.CfnParameterProps{
			Default: empty, AllowedPattern: jsii.String("(arn:[a-z-]+:kms:[a-z0-9-]+:[0-9]{12}:key/.+)?"),
			ConstraintDescription: jsii.String("empty, or the ARN of a key; not an alias"),
		})
	s.retention = add("LogRetentionDays", "The retention of the functions' logs, in days.", awscdk.CfnParameterProps{
		Default: jsii.String("30"), AllowedValues: jsii.Strings("1", "3", "5", "7", "14", "30", "60", "90", "120", "150", "180", "365", "400",
			"545", "731", "1096", "1827", "2192", "2557", "2922", "3288", "3653"),
	})
	s.condition(hasBoundary, s.boundary)
	s.condition(hasKey, s.key)
}

// condition creates a condition that holds if parameter p is not empty.
func (s *stack) condition(name string, p awscdk.CfnParameter) awscdk.CfnCondition {
	return awscdk.NewCfnCondition(s.cdk, jsii.String(name), &awscdk.CfnConditionProps{
		Expression: awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(p.ValueAsString(), "")),
	})
}

func (s *stack) code(bundle string) awslambda.Code {
	id := jsii.String("Code")
	bucket, ok := s.cdk.Node().TryFindChild(id).(awss3.IBucket)
	if !ok {
		bucket = awss3.Bucket_FromBucketName(s.cdk, id, s.bucket.ValueAsString())
	}
	return awslambda.Code_FromBucketV2(bucket, jsii.String(*s.prefix.ValueAsString()+contract.Archive(bundle,
		*s.architecture.ValueAsString())), nil)
}

func (s *stack) newTopic() awssns.ITopic {
	topic := awssns.NewTopic(s.cdk, jsii.String("Alarms"), nil)
	subscription := awssns.NewCfnSubscription(s.cdk, jsii.String("AlarmEmailSubscription"), &awssns.CfnSubscriptionProps{
		Protocol: jsii.String("email"), TopicArn: topic.TopicArn(), Endpoint: s.email.ValueAsString(),
	})
	subscription.CfnOptions().SetCondition(s.condition(hasAlarmEmail, s.email))
	return topic
}

func (s *stack) onlyIf(scope constructs.IConstruct, condition awscdk.CfnCondition) {
	for _, c := range *scope.Node().FindAll("") {
		if r, ok := c.(awscdk.CfnResource); ok {
			r.CfnOptions().SetCondition(condition)
		}
	}
}

func (s *stack) output(id string, value *string) awscdk.CfnOutput {
	return awscdk.NewCfnOutput(s.cdk, jsii.String(id), &awscdk.CfnOutputProps{Value: value})
}
