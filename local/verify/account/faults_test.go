package account_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"

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
	{"policy too narrow", func(s *site) func() { return s.changePolicy(`"dynamodb:UpdateItem"`, `"dynamodb:DescribeTable"`) }, []string{"role-permissions", "role-policies"}, "dynamodb:UpdateItem"},
	{"policy without a condition", func(s *site) func() { return s.changePolicy(`"subjectkey"`, `"subjectkey", "subjectkey2"`) }, []string{"role-permissions", "role-policies"}, "subjectkey2"},
	{"another policy", (*site).addPolicy, []string{"role-policies"}, "also has the policy added"},
	{"alarm on another metric", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) {
			in.Namespace, in.MetricName = aws.String("Nowhere"), aws.String("NoSuchMetric")
		})
	}, []string{"alarm-metrics"}, "no metric NoSuchMetric in Nowhere"},
	{"alarm with a dimension", func(s *site) func() {
		return s.changeAlarm(func(in *cloudwatch.PutMetricAlarmInput) {
			in.Dimensions = []watch.Dimension{{Name: aws.String("Rule"), Value: aws.String("x")}}
		})
	}, []string{"alarm-metrics"}, "no metric ClockSkew in Weir/dev with Rule=x"},
	{"another property", func(s *site) func() {
		s.cloud.Drift("RestLimiter56D3A9AF")
		return func() { s.cloud.Drift() }
	}, []string{"drift"}, "RestLimiter56D3A9AF: /Name: got other, want name"},
	{"dashboard without the search", (*site).emptyDashboard, []string{"dashboard"}, "no SEARCH"},
	{"a route with a throttle", (*site).throttleRoute, []string{"http-route-settings"}, "GET /api/v1/search"},
	{"a domain with an unknown base path", (*site).mapDomain, []string{"domain-mappings"}, `BASE_PATH is "", want /v1 among its paths`},
	{"error in the log", func(s *site) func() {
		s.log(time.Now(), `{"level":"WARN","msg":"subject hash key not read; this environment uses a random key"}`)
		return nil
	}, []string{"log-errors", "subject-key-policy"}, "subject hash key not read"},
}

// cacheFaults are the faults of a stack with a cache, a stream, CORS and rules of AppConfig.
var cacheFaults = []fault{
	{"login denied", func(s *site) func() { return s.count("Weir/dev", "Degraded", 40) }, []string{"elasticache-login"}, "40 of 40 decisions without the store"},
	{"an event dropped", func(s *site) func() { return s.count("Weir/dev", "EventsDropped", 1) }, []string{"events"}, "20 events in the stream, 1 dropped"},
	{"rules rejected", func(s *site) func() { return s.count("Weir/dev", "RulesRefused", 1) }, []string{"appconfig"}, "1 rejected documents"},
	{"lines not settled", func(s *site) func() {
		return s.count("AWS/Lambda", "Invocations", -20, "FunctionName", s.physical("LimitsForward"))
	}, []string{"settlement-subscription"}, "0 invocations"},
	{"settling fails", func(s *site) func() {
		return s.count("AWS/Lambda", "Errors", 1, "FunctionName", s.physical("LimitsForward"))
	}, []string{"settlement-subscription"}, "20 invocations, 1 of them failed"},
	{"settlements lost", func(s *site) func() { return s.count("Weir/dev", "SettlementsLost", 3) }, []string{"settlement-subscription"}, "3 settlements lost"},
	{"signing keys not written", func(s *site) func() {
		return s.count("AWS/Lambda", "Errors", 1, "FunctionName", s.physical("LimitsSigningKeys"))
	}, []string{"signing-keys-policy"}, "2 of 20 invocations failed, among them the last"},
}

// regionsFaults are the faults of a stack in several regions.
var regionsFaults = []fault{
	{"a region without counters", (*site).dropCounters, []string{"regions-tables"}, "eu-central-1: no table weir-dev-counters"},
	{"another order of the regions", func(s *site) func() {
		return s.cloud.DeployedIn("eu-central-1", stackName, "us-east-1,eu-central-1", "eu-central-1,us-east-1")
	}, []string{"regions-settings"}, `eu-central-1: REGIONS is "eu-central-1,us-east-1,ap-southeast-1", want "us-east-1,eu-central-1,ap-southeast-1" as in us-east-1`},
	{"another namespace", func(s *site) func() {
		return s.cloud.DeployedIn("ap-southeast-1", stackName, `"NAMESPACE": "dev"`, `"NAMESPACE": "other"`)
	}, []string{"regions-settings"}, `ap-southeast-1: NAMESPACE is "other", want "dev" as in us-east-1`},
	{"regions that do not answer", func(s *site) func() { return s.count("Weir/dev", "RegionsFailed", 20) }, []string{"regions-reached"}, "none of 20 calls was answered"},
	{"policy of another region", func(s *site) func() { return s.changePolicy(":dynamodb:eu-central-1:", ":dynamodb:eu-central-2:") }, []string{"role-policies"}, "eu-central-2"},
	{"policy too narrow", func(s *site) func() { return s.changePolicy(`"dynamodb:UpdateItem"`, `"dynamodb:DescribeTable"`) }, []string{"role-permissions", "role-policies"}, "dynamodb:UpdateItem"},
}

// Each fault makes exactly its rows fail.
func TestStack_faults(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	seedAll(t, c, s, stackFaults)
}

func TestStack_faults_regions(t *testing.T) {
	c, s := deployed(t, "regions")
	seedAll(t, c, s, regionsFaults)
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

func (s *site) watch() *cloudwatch.Client {
	return cloudwatch.NewFromConfig(s.cloud.Config(), accounttest.Query)
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

func (s *site) emptyDashboard() (undo func()) {
	name := aws.String(s.physical("Dashboard"))
	former, err := s.watch().GetDashboard(s.Context(), &cloudwatch.GetDashboardInput{DashboardName: name})
	s.check(err)
	return change(`{"widgets":[]}`, aws.ToString(former.DashboardBody), func(body string) {
		_, err := s.watch().PutDashboard(s.Context(), &cloudwatch.PutDashboardInput{DashboardName: name, DashboardBody: &body})
		s.check(err)
	})
}

// dropCounters deletes the counters of another region.
func (s *site) dropCounters() (undo func()) {
	const region = "eu-central-1"
	client := dynamodb.NewFromConfig(s.cloud.Config(), func(o *dynamodb.Options) { o.Region = region })
	_, err := client.DeleteTable(s.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("weir-dev-counters")})
	s.check(err)
	return func() { s.cloud.CreateTable(s.T, region, "weir-dev-counters") }
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

func (s *site) logTo(prefix string, at time.Time, line string) {
	s.Helper()
	client, group, stream := cloudwatchlogs.NewFromConfig(s.cloud.Config()), s.physical(prefix), "stream"
	_, err := client.CreateLogStream(s.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
	if err == nil || !strings.Contains(err.Error(), "ResourceAlreadyExistsException") { // two rows can write to one log
		s.check(err)
	}
	_, err = client.PutLogEvents(s.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: []logs.InputLogEvent{{Message: &line, Timestamp: aws.Int64(at.UnixMilli())}}})
	s.check(err)
}

// throttleRoute replaces the stage of the HTTP API by one with settings of a route.
func (s *site) throttleRoute() (undo func()) {
	client, api, name := apigatewayv2.NewFromConfig(s.cloud.Config()), aws.String(s.physical("Http36EFD62B")), aws.String("$default")
	return change(map[string]webs.RouteSettings{"GET /api/v1/search": {ThrottlingRateLimit: aws.Float64(5)}}, nil, func(routes map[string]webs.RouteSettings) {
		_, err := client.DeleteStage(s.Context(), &apigatewayv2.DeleteStageInput{ApiId: api, StageName: name})
		s.check(err)
		_, err = client.CreateStage(s.Context(), &apigatewayv2.CreateStageInput{ApiId: api, StageName: name, RouteSettings: routes})
		s.check(err)
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
