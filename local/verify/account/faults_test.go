package account_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apis "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	functions "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/wafv2"
	firewalls "github.com/aws/aws-sdk-go-v2/service/wafv2/types"

	"github.com/weir-limits/weir/local/verify/account"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// fault is a change of a deployed stack and the rows that fail because of it. seed makes the change. It
// returns the function that undoes the change, or nil.
type fault struct {
	name string
	seed func(*site) (undo func())
	rows []string
	raw  string // a part of the raw answer of the last row
}

// stackFaults are the faults of a stack with the store DynamoDB.
var stackFaults = []fault{
	{"caching on", func(s *site) func() { return change("300", "0", s.setCaching) }, []string{"authorizer-cache"}, "300 s"},
	{"throttle changed", func(s *site) func() { return change("5", "600", s.setStage("/*/*/throttling/rateLimit")) }, []string{"stage-settings"}, "got 5, want 600"},
	{"bodies logged", func(s *site) func() { return change("true", "false", s.setStage("/*/*/logging/dataTrace")) }, []string{"stage-settings"}, "data trace true"},
	{"another ACCESS_DENIED response", (*site).replaceResponse, []string{"gateway-responses"}, "the API has another response of type ACCESS_DENIED"},
	{"policy too narrow", func(s *site) func() { return s.changePolicy(`"dynamodb:UpdateItem"`, `"dynamodb:DescribeTable"`) }, []string{"role-permissions", "role-policies"}, "dynamodb:UpdateItem"},
	{"policy without a condition", func(s *site) func() { return s.changePolicy(`"subjectkey"`, `"subjectkey", "subjectkey2"`) }, []string{"role-permissions", "role-policies"}, "subjectkey2"},
	{"another policy", (*site).addPolicy, []string{"role-policies"}, "also has the policy added"},
	{"method without the authorizer", func(s *site) func() {
		return change("NONE", "CUSTOM", s.authorize(s.physical("Restapiv1searchE624BFF7"), "GET"))
	}, []string{"authorizer-methods"}, "got NONE, want CUSTOM"},
	{"alarm of missing data", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.TreatMissingData = aws.String("breaching") })
	}, []string{"alarm-states"}, "got breaching, want notBreaching"},
	{"alarm without actions", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.AlarmActions = nil })
	}, []string{"alarm-states"}, "AlarmActions"},
	{"alarm on another metric", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) {
			in.Namespace, in.MetricName = aws.String("Nowhere"), aws.String("NoSuchMetric")
		})
	}, []string{"alarm-metrics", "alarm-states"}, "got NoSuchMetric, want ClockSkew"},
	{"alarm with a dimension", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) {
			in.Dimensions = []watch.Dimension{{Name: aws.String("Rule"), Value: aws.String("x")}}
		})
	}, []string{"alarm-metrics", "alarm-states"}, "Dimensions"},
	{"alarm with another statistic", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.Statistic = watch.StatisticMinimum })
	}, []string{"alarm-states"}, "got Minimum, want Maximum"},
	{"alarm with another period", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.Period = aws.Int32(300) })
	}, []string{"alarm-states"}, "got 300, want 60"},
	{"alarm of fewer minutes", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.DatapointsToAlarm = aws.Int32(1) })
	}, []string{"alarm-states"}, "got 1, want 3"},
	{"alarm on metric math", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) {
			in.Metrics = []watch.MetricDataQuery{{Id: aws.String("m"), ReturnData: aws.Bool(true), MetricStat: &watch.MetricStat{
				Metric: &watch.Metric{Namespace: in.Namespace, MetricName: in.MetricName}, Period: in.Period, Stat: aws.String("Maximum"),
			}}}
			in.Namespace, in.MetricName, in.Period, in.Statistic = nil, nil, nil, ""
		})
	}, []string{"alarm-states"}, "MetricName: got <nil>, want ClockSkew"},
	{"less memory", func(s *site) func() { return change(128, 512, s.setMemory) }, []string{"function-settings"}, "got 128, want 512"},
	{"no recovery", func(s *site) func() { return change(false, true, s.setRecovery) }, []string{"records-table"}, "no point-in-time recovery"},
	{"rule disabled", (*site).disableRule, []string{"insight-rule"}, "got DISABLED, want ENABLED"},
	{"dashboard without the search", (*site).emptyDashboard, []string{"dashboard"}, "no SEARCH"},
	{"throttle of the HTTP stage changed", func(s *site) func() {
		return s.changeHTTPStage(func(in *apigatewayv2.CreateStageInput) { in.DefaultRouteSettings.ThrottlingRateLimit = aws.Float64(5) })
	}, []string{"http-stage-settings"}, "got 5, want 600"},
	{"a route with a throttle", func(s *site) func() {
		return s.changeHTTPStage(func(in *apigatewayv2.CreateStageInput) {
			in.RouteSettings = map[string]webs.RouteSettings{"GET /api/v1/search": {ThrottlingRateLimit: aws.Float64(5)}}
		})
	}, []string{"http-stage-settings"}, "GET /api/v1/search"},
	{"no access log of the HTTP stage", func(s *site) func() {
		return s.changeHTTPStage(func(in *apigatewayv2.CreateStageInput) { in.AccessLogSettings = nil })
	}, []string{"http-stage-settings"}, "AccessLogSettings"},
	{"metric filter with another pattern", func(s *site) func() {
		return s.changeMetricFilter(func(in *cloudwatchlogs.PutMetricFilterInput) { in.FilterPattern = aws.String("ERROR") })
	}, []string{"metric-filters"}, "got ERROR"},
	{"metric filter of another metric", func(s *site) func() {
		return s.changeMetricFilter(func(in *cloudwatchlogs.PutMetricFilterInput) {
			in.MetricTransformations[0].MetricName = aws.String("Other")
		})
	}, []string{"metric-filters"}, "got Other"},
	{"no metric filter", func(s *site) func() {
		return s.changeMetricFilter(func(in *cloudwatchlogs.PutMetricFilterInput) { in.FilterName = nil })
	}, []string{"metric-filters"}, "none of 0 filters"},
	{"a domain with an unknown base path", (*site).mapDomain, []string{"domain-mappings"}, `BASE_PATH is "", want /v1 among its paths`},
	{"error in the log", func(s *site) func() {
		s.log(time.Now(), `{"level":"WARN","msg":"subject hash key not read; this environment uses a random key"}`)
		return nil
	}, []string{"log-errors", "subject-key-policy"}, "subject hash key not read"},
}

// cacheFaults are the faults of a stack with a cache, a stream, CORS and rules of AppConfig.
var cacheFaults = []fault{
	{"method of the root with an authorizer", func(s *site) func() {
		return change("CUSTOM", "NONE", s.authorize(s.root(), "OPTIONS"))
	}, []string{"authorizer-methods"}, "got CUSTOM, want NONE"},
	{"functions in another subnet", (*site).moveFunction, []string{"vpc-policy"}, "VpcConfig.SubnetIds"},
	{"login denied", func(s *site) func() { return s.count("Weir/dev", "Degraded", 40) }, []string{"elasticache-login"}, "40 of 40 decisions without the store"},
	{"an event dropped", func(s *site) func() { return s.count("Weir/dev", "EventsDropped", 1) }, []string{"events"}, "20 events in the stream, 1 dropped"},
	{"rules rejected", func(s *site) func() { return s.count("Weir/dev", "RulesRefused", 1) }, []string{"appconfig"}, "1 rejected documents"},
	{"no web ACL", (*site).disassociate, []string{"web-acl"}, "no web ACL protects it"},
	{"web ACL that blocks later", (*site).raiseACL, []string{"web-acl"}, "got 9e+06, want 2000"},
	{"subscription deleted", (*site).unsubscribe, []string{"settlement-subscription"}, "none of 0 filters"},
	{"subscription of other lines", func(s *site) func() { return change("ERROR", `{ $.receipt != "-" }`, s.subscribe) }, []string{"settlement-subscription"}, "got ERROR"},
	{"logs may not invoke the function", (*site).forbidLogs, []string{"settlement-subscription"}, "does not permit CloudWatch Logs"},
	{"lines not settled", func(s *site) func() {
		return s.count("AWS/Lambda", "Invocations", -20, "FunctionName", s.physical("LimitsSettle"))
	}, []string{"settlement-subscription"}, "0 invocations"},
	{"settling fails", func(s *site) func() {
		return s.count("AWS/Lambda", "Errors", 1, "FunctionName", s.physical("LimitsSettle"))
	}, []string{"settlement-subscription"}, "20 invocations, 1 of them failed"},
	{"settlements lost", func(s *site) func() { return s.count("Weir/dev", "SettlementsLost", 3) }, []string{"settlement-subscription"}, "3 settlements lost"},
	{"signing keys not written", func(s *site) func() {
		return s.count("AWS/Lambda", "Errors", 1, "FunctionName", s.physical("LimitsSigningKeys"))
	}, []string{"signing-keys-policy"}, "2 of 20 invocations failed, among them the last"},
}

// Each fault makes exactly its rows fail.
func TestStack_faults(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	seedAll(t, c, s, stackFaults)
}

// A fault in the hour before the run causes a warning. Each fault during the run makes exactly its row
// fail.
func TestStack_faults_cache(t *testing.T) {
	c, s := deployedAs(t, "everything", `"RULES_FROM": "table"`, `"RULES_FROM": "appconfig:weir/dev/rules"`)
	before, here := time.Now().Add(-30*time.Minute), &site{t, c, s}
	for _, name := range []string{"Degraded", "EventsDropped", "RulesRefused"} {
		put(t, c, before, "Weir/dev", name, 1)
	}
	put(t, c, before, "AWS/Lambda", "Errors", 1, "FunctionName", physical(t, s, "LimitsSigningKeys"))
	here.log(before, `{"level":"ERROR","msg":"an outage that has ended"}`)
	all := checkAll(t, s)
	if got := failing(all); len(got) > 0 {
		t.Errorf("faults before the run: got failing rows %v, want none", got)
	}
	got, want := []string{}, []string{"appconfig", "elasticache-login", "events", "log-errors", "signing-keys-policy"}
	for _, row := range slices.Sorted(maps.Keys(all)) {
		if strings.Contains(all[row].Warning, before.UTC().Format("15:04")+" UTC") {
			got = append(got, row)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows with a warning: got %v, want %v", got, want)
	}
	seedAll(t, c, s, cacheFaults)
}

// seedAll tests that each fault makes exactly its rows fail.
func seedAll(t *testing.T, c *accounttest.Cloud, s *account.Stack, faults []fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			undo := f.seed(&site{t, c, s})
			all := checkAll(t, s)
			if got := failing(all); !slices.Equal(got, f.rows) {
				t.Errorf("failing rows: got %v, want %v", got, f.rows)
			}
			if last := f.rows[len(f.rows)-1]; !strings.Contains(all[last].Raw, f.raw) {
				t.Errorf("%s: got %q, want %q in it", last, all[last].Raw, f.raw)
			}
			if undo != nil {
				undo()
			}
		})
	}
}

// site is a deployed stack in which a test seeds faults.
type site struct {
	*testing.T
	cloud *accounttest.Cloud
	stack *account.Stack
}

func (s *site) physical(prefix string) string { s.Helper(); return physical(s.T, s.stack, prefix) }

// check ends the test if a change failed.
func (s *site) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// change sets a value and returns the function that sets the former value.
func change[V any](value, former V, set func(V)) (undo func()) {
	set(value)
	return func() { set(former) }
}

func (s *site) gateway() *apigateway.Client { return apigateway.NewFromConfig(s.cloud.Config()) }

func (s *site) watch() *cloudwatch.Client {
	return cloudwatch.NewFromConfig(s.cloud.Config(), accounttest.Query)
}

func (s *site) api() *string { return aws.String(s.physical("Rest9065D4D9")) }

func (s *site) authorizer() *string { return aws.String(s.physical("RestLimiter56D3A9AF")) }

func (s *site) setCaching(seconds string) {
	_, err := s.gateway().UpdateAuthorizer(s.Context(), &apigateway.UpdateAuthorizerInput{RestApiId: s.api(), AuthorizerId: s.authorizer(), PatchOperations: []apis.PatchOperation{
		{Op: apis.OpReplace, Path: aws.String("/authorizerResultTtlInSeconds"), Value: &seconds},
	}})
	s.check(err)
}

func (s *site) setStage(path string) func(string) {
	return func(value string) {
		_, err := s.gateway().UpdateStage(s.Context(), &apigateway.UpdateStageInput{RestApiId: s.api(), StageName: aws.String(s.physical("RestDeploymentStage")), PatchOperations: []apis.PatchOperation{{Op: apis.OpReplace, Path: &path, Value: &value}}})
		s.check(err)
	}
}

// replaceResponse replaces the response to denied requests.
func (s *site) replaceResponse() (undo func()) {
	kind := apis.GatewayResponseTypeAccessDenied
	former, err := s.gateway().GetGatewayResponse(s.Context(), &apigateway.GetGatewayResponseInput{RestApiId: s.api(), ResponseType: kind})
	s.check(err)
	return change(&apigateway.PutGatewayResponseInput{StatusCode: aws.String("403")},
		&apigateway.PutGatewayResponseInput{StatusCode: former.StatusCode, ResponseParameters: former.ResponseParameters, ResponseTemplates: former.ResponseTemplates},
		func(in *apigateway.PutGatewayResponseInput) {
			in.RestApiId, in.ResponseType = s.api(), kind
			_, err := s.gateway().PutGatewayResponse(s.Context(), in)
			s.check(err)
		})
}

// authorize returns the function that sets the type of a method's authorization.
func (s *site) authorize(resource, method string) func(kind string) {
	return func(kind string) {
		in := &apigateway.PutMethodInput{RestApiId: s.api(), ResourceId: &resource, HttpMethod: &method, AuthorizationType: &kind}
		if kind == "CUSTOM" {
			in.AuthorizerId = s.authorizer()
		}
		_, err := s.gateway().PutMethod(s.Context(), in)
		s.check(err)
	}
}

// root returns the id of the API's root resource.
func (s *site) root() string {
	out, err := s.gateway().GetResources(s.Context(), &apigateway.GetResourcesInput{RestApiId: s.api()})
	s.check(err)
	return aws.ToString(out.Items[slices.IndexFunc(out.Items, func(r apis.Resource) bool { return aws.ToString(r.Path) == "/" })].Id)
}

// changePolicy replaces a text in the policy of the authorizer.
func (s *site) changePolicy(old, replacement string) (undo func()) {
	client, role, name := iam.NewFromConfig(s.cloud.Config()), s.physical("LimitsAuthorizerRole3610BB4B"), "LimitsAuthorizerRoleDefaultPolicy7BC8875E"
	former, err := client.GetRolePolicy(s.Context(), &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &name})
	s.check(err)
	document, err := url.PathUnescape(aws.ToString(former.PolicyDocument))
	s.check(err)
	return change(strings.Replace(document, old, replacement, 1), document, func(document string) {
		_, err := client.PutRolePolicy(s.Context(), &iam.PutRolePolicyInput{RoleName: &role, PolicyName: &name, PolicyDocument: &document})
		s.check(err)
	})
}

// addPolicy adds a policy to the role of the authorizer.
func (s *site) addPolicy() (undo func()) {
	client, role, name := iam.NewFromConfig(s.cloud.Config()), s.physical("LimitsAuthorizerRole3610BB4B"), aws.String("added")
	_, err := client.PutRolePolicy(s.Context(), &iam.PutRolePolicyInput{RoleName: &role, PolicyName: name, PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`)})
	s.check(err)
	return func() {
		_, err := client.DeleteRolePolicy(s.Context(), &iam.DeleteRolePolicyInput{RoleName: &role, PolicyName: name})
		s.check(err)
	}
}

// changeAlarm changes the alarm named clock-skew.
func (s *site) changeAlarm(spoil func(*cloudwatch.PutMetricAlarmInput)) (undo func()) {
	found, err := s.watch().DescribeAlarms(s.Context(), &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{"weir-dev-clock-skew"}})
	s.check(err)
	a := found.MetricAlarms[0]
	return change(spoil, func(*cloudwatch.PutMetricAlarmInput) {}, func(change func(*cloudwatch.PutMetricAlarmInput)) {
		in := &cloudwatch.PutMetricAlarmInput{AlarmName: a.AlarmName, AlarmActions: a.AlarmActions, ActionsEnabled: a.ActionsEnabled, ComparisonOperator: a.ComparisonOperator, Threshold: a.Threshold, EvaluationPeriods: a.EvaluationPeriods, DatapointsToAlarm: a.DatapointsToAlarm, Namespace: a.Namespace, MetricName: a.MetricName, Statistic: a.Statistic, Period: a.Period, TreatMissingData: a.TreatMissingData}
		change(in)
		_, err := s.watch().PutMetricAlarm(s.Context(), in)
		s.check(err)
	})
}

func (s *site) setMemory(size int32) {
	_, err := lambda.NewFromConfig(s.cloud.Config()).UpdateFunctionConfiguration(s.Context(), &lambda.UpdateFunctionConfigurationInput{FunctionName: aws.String(s.physical("LimitsAuthorizerAA8B40AD")), MemorySize: &size})
	s.check(err)
}

// moveFunction removes the handler from one of its two subnets.
func (s *site) moveFunction() (undo func()) {
	client, name := lambda.NewFromConfig(s.cloud.Config()), aws.String(s.physical("LimitsHandlerE466FA09"))
	found, err := client.GetFunctionConfiguration(s.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: name})
	s.check(err)
	network := found.VpcConfig
	return change(network.SubnetIds[:1], network.SubnetIds, func(subnets []string) {
		_, err := client.UpdateFunctionConfiguration(s.Context(), &lambda.UpdateFunctionConfigurationInput{FunctionName: name, VpcConfig: &functions.VpcConfig{SubnetIds: subnets, SecurityGroupIds: network.SecurityGroupIds}})
		s.check(err)
	})
}

func (s *site) setRecovery(enabled bool) {
	_, err := dynamodb.NewFromConfig(s.cloud.Config()).UpdateContinuousBackups(s.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: aws.String(s.physical("LimitsRecords")), PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: &enabled}})
	s.check(err)
}

func (s *site) disableRule() (undo func()) {
	names := []string{"weir-dev-refused-most"}
	_, err := s.watch().DisableInsightRules(s.Context(), &cloudwatch.DisableInsightRulesInput{RuleNames: names})
	s.check(err)
	return func() {
		_, err := s.watch().EnableInsightRules(s.Context(), &cloudwatch.EnableInsightRulesInput{RuleNames: names})
		s.check(err)
	}
}

func (s *site) emptyDashboard() (undo func()) {
	name := aws.String(s.physical("Dashboard"))
	former, err := s.watch().GetDashboard(s.Context(), &cloudwatch.GetDashboardInput{DashboardName: name})
	s.check(err)
	return change(`{"widgets":[]}`, aws.ToString(former.DashboardBody), func(body string) {
		_, err := s.watch().PutDashboard(s.Context(), &cloudwatch.PutDashboardInput{DashboardName: name, DashboardBody: &body})
		s.check(err)
	})
}

// count adds a value to a metric. The function undo adds the negative value, because Moto deletes no
// metric.
func (s *site) count(namespace, name string, value float64, dimension ...string) (undo func()) {
	at := time.Now()
	return change(value, -value, func(value float64) { put(s.T, s.cloud, at, namespace, name, value, dimension...) })
}

// log adds a line to the log of the authorizer.
func (s *site) log(at time.Time, line string) {
	s.Helper()
	s.logTo("LimitsAuthorizerLogs", at, line)
}

// logTo adds a line to a log.
func (s *site) logTo(prefix string, at time.Time, line string) {
	s.Helper()
	client, group, stream := cloudwatchlogs.NewFromConfig(s.cloud.Config()), s.physical(prefix), "stream"
	_, err := client.CreateLogStream(s.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
	s.check(err)
	_, err = client.PutLogEvents(s.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: []logs.InputLogEvent{{Message: &line, Timestamp: aws.Int64(at.UnixMilli())}}})
	s.check(err)
}

// changeHTTPStage replaces the stage of the HTTP API.
func (s *site) changeHTTPStage(spoil func(*apigatewayv2.CreateStageInput)) (undo func()) {
	client, api, name := apigatewayv2.NewFromConfig(s.cloud.Config()), aws.String(s.physical("Http36EFD62B")), aws.String("$default")
	former, err := client.GetStage(s.Context(), &apigatewayv2.GetStageInput{ApiId: api, StageName: name})
	s.check(err)
	return change(spoil, func(*apigatewayv2.CreateStageInput) {}, func(change func(*apigatewayv2.CreateStageInput)) {
		settings := *former.DefaultRouteSettings
		in := &apigatewayv2.CreateStageInput{ApiId: api, StageName: name, AccessLogSettings: former.AccessLogSettings, DefaultRouteSettings: &settings}
		change(in)
		_, err := client.DeleteStage(s.Context(), &apigatewayv2.DeleteStageInput{ApiId: api, StageName: name})
		s.check(err)
		_, err = client.CreateStage(s.Context(), in)
		s.check(err)
	})
}

// changeMetricFilter replaces the metric filter of failed authorizers. It deletes the filter if spoil removes its name.
func (s *site) changeMetricFilter(spoil func(*cloudwatchlogs.PutMetricFilterInput)) (undo func()) {
	client, group := cloudwatchlogs.NewFromConfig(s.cloud.Config()), aws.String(s.physical("RestAccess"))
	found, err := client.DescribeMetricFilters(s.Context(), &cloudwatchlogs.DescribeMetricFiltersInput{LogGroupName: group})
	s.check(err)
	f := found.MetricFilters[0]
	return change(spoil, func(*cloudwatchlogs.PutMetricFilterInput) {}, func(change func(*cloudwatchlogs.PutMetricFilterInput)) {
		_, err := client.DeleteMetricFilter(s.Context(), &cloudwatchlogs.DeleteMetricFilterInput{LogGroupName: group, FilterName: f.FilterName})
		s.check(err)
		in := &cloudwatchlogs.PutMetricFilterInput{LogGroupName: group, FilterName: f.FilterName, FilterPattern: f.FilterPattern, MetricTransformations: slices.Clone(f.MetricTransformations)}
		if change(in); in.FilterName != nil {
			_, err = client.PutMetricFilter(s.Context(), in)
			s.check(err)
		}
	})
}

// mapDomain maps a domain to the HTTP API.
func (s *site) mapDomain() (undo func()) {
	client, domain := apigatewayv2.NewFromConfig(s.cloud.Config()), aws.String("api.example.com")
	_, err := client.CreateDomainName(s.Context(), &apigatewayv2.CreateDomainNameInput{DomainName: domain})
	s.check(err)
	made, err := client.CreateApiMapping(s.Context(), &apigatewayv2.CreateApiMappingInput{ApiId: aws.String(s.physical("Http36EFD62B")), DomainName: domain, Stage: aws.String("$default"), ApiMappingKey: aws.String("v1")})
	s.check(err)
	return func() {
		_, err := client.DeleteApiMapping(s.Context(), &apigatewayv2.DeleteApiMappingInput{ApiMappingId: made.ApiMappingId, DomainName: domain})
		s.check(err)
	}
}

// stageARN returns the ARN of the stage of the REST API.
func (s *site) stageARN() *string {
	return aws.String("arn:aws:apigateway:us-east-1::/restapis/" + *s.api() + "/stages/" + s.physical("RestDeploymentStage"))
}

func (s *site) disassociate() (undo func()) {
	client, resource := wafv2.NewFromConfig(s.cloud.Config()), s.stageARN()
	found, err := client.GetWebACLForResource(s.Context(), &wafv2.GetWebACLForResourceInput{ResourceArn: resource})
	s.check(err)
	_, err = client.DisassociateWebACL(s.Context(), &wafv2.DisassociateWebACLInput{ResourceArn: resource})
	s.check(err)
	return func() {
		_, err := client.AssociateWebACL(s.Context(), &wafv2.AssociateWebACLInput{ResourceArn: resource, WebACLArn: found.WebACL.ARN})
		s.check(err)
	}
}

// raiseACL raises the limit of the web ACL.
func (s *site) raiseACL() (undo func()) {
	client := wafv2.NewFromConfig(s.cloud.Config())
	return change(int64(9_000_000), 2000, func(limit int64) {
		found, err := client.GetWebACLForResource(s.Context(), &wafv2.GetWebACLForResourceInput{ResourceArn: s.stageARN()})
		s.check(err)
		acl := found.WebACL
		name, id, _ := strings.Cut(s.physical("WebAcl"), "|")
		id, _, _ = strings.Cut(id, "|")
		held, err := client.GetWebACL(s.Context(), &wafv2.GetWebACLInput{Name: &name, Id: &id, Scope: firewalls.ScopeRegional})
		s.check(err)
		acl.Rules[0].Statement.RateBasedStatement.Limit = &limit
		_, err = client.UpdateWebACL(s.Context(), &wafv2.UpdateWebACLInput{Name: &name, Id: &id, Scope: firewalls.ScopeRegional, LockToken: held.LockToken, DefaultAction: acl.DefaultAction, Rules: acl.Rules, VisibilityConfig: acl.VisibilityConfig})
		s.check(err)
	})
}

// subscribe replaces the pattern of the access log's subscription.
func (s *site) subscribe(pattern string) {
	client, group := cloudwatchlogs.NewFromConfig(s.cloud.Config()), aws.String(s.physical("RestAccess"))
	f, err := lambda.NewFromConfig(s.cloud.Config()).GetFunctionConfiguration(s.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: aws.String(s.physical("LimitsSettle"))})
	s.check(err)
	_, err = client.PutSubscriptionFilter(s.Context(), &cloudwatchlogs.PutSubscriptionFilterInput{LogGroupName: group, FilterName: s.subscription(), FilterPattern: &pattern, DestinationArn: f.FunctionArn})
	s.check(err)
}

func (s *site) subscription() *string { return aws.String("RestAccessSettleLinesDA447AD2") }

func (s *site) unsubscribe() (undo func()) {
	client, group := cloudwatchlogs.NewFromConfig(s.cloud.Config()), aws.String(s.physical("RestAccess"))
	_, err := client.DeleteSubscriptionFilter(s.Context(), &cloudwatchlogs.DeleteSubscriptionFilterInput{LogGroupName: group, FilterName: s.subscription()})
	s.check(err)
	return func() { s.subscribe(`{ $.receipt != "-" }`) }
}

// forbidLogs removes the permission of CloudWatch Logs to invoke the function Settle.
func (s *site) forbidLogs() (undo func()) {
	client, name, id := lambda.NewFromConfig(s.cloud.Config()), aws.String(s.physical("LimitsSettle")), aws.String("RestAccessSettlePermissionD21CFCA0")
	_, err := client.RemovePermission(s.Context(), &lambda.RemovePermissionInput{FunctionName: name, StatementId: id})
	s.check(err)
	return func() {
		_, err := client.AddPermission(s.Context(), &lambda.AddPermissionInput{FunctionName: name, StatementId: id, Action: aws.String("lambda:InvokeFunction"), Principal: aws.String("logs.amazonaws.com")})
		s.check(err)
	}
}
