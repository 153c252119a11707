package account_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apis "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/verify/account"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

const stackName = "Weir-dev"

// deployed deploys a golden template and opens its stack. The functions have served a request.
func deployed(t *testing.T, golden string) (*accounttest.Cloud, *account.Stack) {
	t.Helper()
	template, err := os.ReadFile("../../../infra/golden/" + golden + ".template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	c.Deploy(t, stackName, template)
	return opened(t, c, "dev")
}

// opened opens the stack of a namespace whose functions have served a request.
func opened(t *testing.T, c *accounttest.Cloud, deployment string) (*accounttest.Cloud, *account.Stack) {
	t.Helper()
	s, err := account.Open(t.Context(), c.Config(), stackName)
	if err != nil {
		t.Fatal(err)
	}
	s.Wait = func(context.Context, time.Duration) error { return nil }
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	put := func(namespace, name string, dimensions ...watch.Dimension) {
		t.Helper()
		if _, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
			Namespace: &namespace, MetricData: []watch.MetricDatum{{MetricName: &name, Value: aws.Float64(20), Timestamp: aws.Time(time.Now()), Dimensions: dimensions}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	put("Weir/"+deployment, "Allowed")
	put("Weir/"+deployment, "Refused")
	for _, r := range s.Resources() {
		switch {
		case r.Type == "AWS::Kinesis::Stream":
			put("AWS/Kinesis", "IncomingRecords", watch.Dimension{Name: aws.String("StreamName"), Value: &r.Physical})
		case r.Type == "AWS::Lambda::Function" && strings.HasPrefix(r.ID, "LimitsSigningKeys"):
			put("AWS/Lambda", "Invocations", watch.Dimension{Name: aws.String("FunctionName"), Value: &r.Physical})
		}
	}
	return c, s
}

// physical returns the physical id of the resource whose logical id begins with a prefix.
func physical(t *testing.T, s *account.Stack, prefix string) string {
	t.Helper()
	for _, r := range s.Resources() {
		if strings.HasPrefix(r.ID, prefix) {
			return r.Physical
		}
	}
	t.Fatalf("resource %s: got none", prefix)
	return ""
}

// checkAll returns the IDs of the rows that fail, with what they observed.
func checkAll(t *testing.T, s *account.Stack) map[string]verify.Observation {
	t.Helper()
	all := map[string]verify.Observation{}
	for _, row := range account.Rows() {
		all[row] = s.Check(t.Context(), row)
	}
	return all
}

func failing(all map[string]verify.Observation) (failed []string) {
	for row, o := range all {
		if o.Outcome == verify.Fail {
			failed = append(failed, row)
		}
	}
	slices.Sort(failed)
	return failed
}

func TestStack_Check(t *testing.T) {
	for golden, skipped := range map[string][]string{
		"everything": {"appconfig"},
		"dynamodb":   {"appconfig", "elasticache-login", "events", "signing-keys-policy", "vpc-policy"},
	} {
		t.Run(golden, func(t *testing.T) {
			_, s := deployed(t, golden)
			all := checkAll(t, s)
			var got []string
			for row, o := range all {
				if o.Outcome == verify.Skip {
					got = append(got, row)
				}
				if o.Outcome == verify.Fail {
					t.Errorf("%s: got %+v, want no failure", row, o)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, skipped) {
				t.Errorf("skipped rows: got %v, want %v", got, skipped)
			}
			if left := s.Left(); len(left) > 0 {
				t.Errorf("left: got %v, want nothing", left)
			}
		})
	}
}

// The template of a release has parameters and conditions. Each row that applies passes with either store.
func TestStack_Check_release(t *testing.T) {
	template, err := os.ReadFile("../../../infra/standalone/weir.template.json")
	if err != nil {
		t.Fatal(err)
	}
	for store, want := range map[string]struct{ holds, skipped []string }{
		"dynamodb": {[]string{"HasRestApi", "NotUsesElastiCache", "HasIssuer"},
			[]string{"appconfig", "authorizer-methods", "elasticache-login", "events", "signing-keys-policy", "stage-settings", "vpc-policy"}},
		"elasticache": {[]string{"HasRestApi", "UsesElastiCache", "HasIssuer", "HasIssuerUsesElastiCache"},
			[]string{"appconfig", "authorizer-methods", "events", "stage-settings"}},
	} {
		t.Run(store, func(t *testing.T) {
			c := accounttest.Start(t)
			api, err := apigateway.NewFromConfig(c.Config()).CreateRestApi(t.Context(), &apigateway.CreateRestApiInput{Name: aws.String("existing")})
			if err != nil {
				t.Fatal(err)
			}
			c.DeployWith(t, stackName, template, map[string]string{
				"Namespace": "main", "CodeBucket": "bucket", "CodePrefix": "weir/", "Architecture": "arm64", "RestApiId": aws.ToString(api.Id), "Store": store,
				"Issuer": "https://issuer.example", "Audience": "api", "JWKS": "https://issuer.example/keys", "AccessLogGroup": "", "AlarmEmail": "",
			}, want.holds...)
			_, s := opened(t, c, "main")
			all := checkAll(t, s)
			var skipped []string
			for row, o := range all {
				if o.Outcome == verify.Skip {
					skipped = append(skipped, row)
				}
				if o.Outcome == verify.Fail {
					t.Errorf("%s: got %+v, want no failure", row, o)
				}
			}
			slices.Sort(skipped)
			if !slices.Equal(skipped, want.skipped) {
				t.Errorf("skipped rows: got %v, want %v", skipped, want.skipped)
			}
		})
	}
}

// Without metrics, the rows fail that only metrics prove.
func TestStack_Check_silent(t *testing.T) {
	template, err := os.ReadFile("../../../infra/golden/everything.template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	c.Deploy(t, stackName, template)
	s, err := account.Open(t.Context(), c.Config(), stackName)
	if err != nil {
		t.Fatal(err)
	}
	s.Wait = func(context.Context, time.Duration) error { return nil }
	s.Status = "UPDATE_ROLLBACK_COMPLETE"
	want := []string{"deploy", "elasticache-login", "events", "metrics", "signing-keys-policy"}
	if got := failing(checkAll(t, s)); !slices.Equal(got, want) {
		t.Errorf("failing rows: got %v, want %v", got, want)
	}
}

// Each row that needs a stack has a test, and no other.
func TestRows(t *testing.T) {
	var want []string
	for _, r := range verify.Rows() {
		if slices.Contains(r.Needs, verify.NeedStack) {
			want = append(want, r.ID)
		}
	}
	slices.Sort(want)
	if got := account.Rows(); !slices.Equal(got, want) {
		t.Errorf("tests: got %v, want %v", got, want)
	}
}

// Each fault fails exactly its rows.
func TestStack_faults(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	gateway, client := apigateway.NewFromConfig(c.Config()), cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	tables, roles, functions := dynamodb.NewFromConfig(c.Config()), iam.NewFromConfig(c.Config()), lambda.NewFromConfig(c.Config())
	api, stage := physical(t, s, "Rest9065D4D9"), physical(t, s, "RestDeploymentStage")
	caching := func(seconds string) error {
		_, err := gateway.UpdateAuthorizer(t.Context(), &apigateway.UpdateAuthorizerInput{RestApiId: &api, AuthorizerId: aws.String(physical(t, s, "RestLimiter56D3A9AF")), PatchOperations: []apis.PatchOperation{
			{Op: apis.OpReplace, Path: aws.String("/authorizerResultTtlInSeconds"), Value: &seconds},
		}})
		return err
	}
	setStage := func(path, value string) error {
		_, err := gateway.UpdateStage(t.Context(), &apigateway.UpdateStageInput{RestApiId: &api, StageName: &stage, PatchOperations: []apis.PatchOperation{{Op: apis.OpReplace, Path: &path, Value: &value}}})
		return err
	}
	var denied *apigateway.GetGatewayResponseOutput
	role, policy := physical(t, s, "LimitsAuthorizerRole3610BB4B"), "LimitsAuthorizerRoleDefaultPolicy7BC8875E"
	records, authorizer := physical(t, s, "LimitsRecords"), physical(t, s, "LimitsAuthorizerAA8B40AD")
	document, err := roles.GetRolePolicy(t.Context(), &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &policy})
	if err != nil {
		t.Fatal(err)
	}
	putPolicy := func(old, replacement string) error {
		text := strings.Replace(unescape(t, aws.ToString(document.PolicyDocument)), old, replacement, 1)
		_, err := roles.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &role, PolicyName: &policy, PolicyDocument: &text})
		return err
	}
	method := physical(t, s, "Restapiv1searchE624BFF7")
	authorize := func(kind string, authorizer *string) error {
		_, err := gateway.PutMethod(t.Context(), &apigateway.PutMethodInput{RestApiId: &api, ResourceId: &method, HttpMethod: aws.String("GET"), AuthorizationType: &kind, AuthorizerId: authorizer})
		return err
	}
	alarm := "weir-dev-clock-skew"
	found, err := client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{alarm}})
	if err != nil {
		t.Fatal(err)
	}
	putAlarm := func(change func(*cloudwatch.PutMetricAlarmInput)) error {
		a := found.MetricAlarms[0]
		in := &cloudwatch.PutMetricAlarmInput{AlarmName: a.AlarmName, AlarmActions: a.AlarmActions, ActionsEnabled: a.ActionsEnabled, ComparisonOperator: a.ComparisonOperator, Threshold: a.Threshold, EvaluationPeriods: a.EvaluationPeriods, Namespace: a.Namespace, MetricName: a.MetricName, TreatMissingData: a.TreatMissingData}
		change(in)
		_, err := client.PutMetricAlarm(t.Context(), in)
		return err
	}
	memory := func(size int32) error {
		_, err := functions.UpdateFunctionConfiguration(t.Context(), &lambda.UpdateFunctionConfigurationInput{FunctionName: &authorizer, MemorySize: &size})
		return err
	}
	recovery := func(enabled bool) error {
		_, err := tables.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: &records, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: &enabled}})
		return err
	}
	insight := func(state string) error {
		var err error
		names := []string{"weir-dev-refused-most"}
		if state == "ENABLED" {
			_, err = client.EnableInsightRules(t.Context(), &cloudwatch.EnableInsightRulesInput{RuleNames: names})
		} else {
			_, err = client.DisableInsightRules(t.Context(), &cloudwatch.DisableInsightRulesInput{RuleNames: names})
		}
		return err
	}
	var dashboard *cloudwatch.GetDashboardOutput
	putDashboard := func(body string) error {
		_, err := client.PutDashboard(t.Context(), &cloudwatch.PutDashboardInput{DashboardName: aws.String(physical(t, s, "Dashboard")), DashboardBody: &body})
		return err
	}
	for _, c := range []struct {
		name       string
		spoil, fix func() error
		rows       []string
		raw        string
	}{
		{"caching on", func() error { return caching("300") }, func() error { return caching("0") }, []string{"authorizer-cache"}, "300 s"},
		{"throttle changed", func() error { return setStage("/*/*/throttling/rateLimit", "5") }, func() error { return setStage("/*/*/throttling/rateLimit", "600") }, []string{"stage-settings"}, "got 5, want 600"},
		{"bodies logged", func() error { return setStage("/*/*/logging/dataTrace", "true") }, func() error { return setStage("/*/*/logging/dataTrace", "false") }, []string{"stage-settings"}, "data trace true"},
		{"another ACCESS_DENIED response", func() (err error) {
			kind := apis.GatewayResponseTypeAccessDenied
			if denied, err = gateway.GetGatewayResponse(t.Context(), &apigateway.GetGatewayResponseInput{RestApiId: &api, ResponseType: kind}); err != nil {
				return err
			}
			_, err = gateway.PutGatewayResponse(t.Context(), &apigateway.PutGatewayResponseInput{RestApiId: &api, ResponseType: kind, StatusCode: aws.String("403")})
			return err
		}, func() error {
			_, err := gateway.PutGatewayResponse(t.Context(), &apigateway.PutGatewayResponseInput{RestApiId: &api, ResponseType: denied.ResponseType, StatusCode: denied.StatusCode, ResponseParameters: denied.ResponseParameters, ResponseTemplates: denied.ResponseTemplates})
			return err
		}, []string{"gateway-responses"}, "the API has another response of type ACCESS_DENIED"},
		{"policy too narrow", func() error { return putPolicy(`"dynamodb:UpdateItem"`, `"dynamodb:DescribeTable"`) }, func() error { return putPolicy("", "") }, []string{"role-permissions", "role-policies"}, "dynamodb:UpdateItem"},
		{"policy without a condition", func() error { return putPolicy(`"subjectkey"`, `"subjectkey", "subjectkey2"`) }, func() error { return putPolicy("", "") }, []string{"role-permissions", "role-policies"}, "subjectkey2"},
		{"another policy", func() error {
			_, err := roles.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: &role, PolicyName: aws.String("added"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}`)})
			return err
		}, func() error {
			_, err := roles.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: &role, PolicyName: aws.String("added")})
			return err
		}, []string{"role-policies"}, "also has the policy added"},
		{"method without the authorizer", func() error { return authorize("NONE", nil) }, func() error {
			return authorize("CUSTOM", aws.String(physical(t, s, "RestLimiter56D3A9AF")))
		}, []string{"authorizer-methods"}, "got NONE, want CUSTOM"},
		{"alarm of missing data", func() error {
			return putAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.TreatMissingData = aws.String("breaching") })
		}, func() error { return putAlarm(func(*cloudwatch.PutMetricAlarmInput) {}) }, []string{"alarm-states"}, "got breaching, want notBreaching"},
		{"alarm without actions", func() error {
			return putAlarm(func(in *cloudwatch.PutMetricAlarmInput) { in.AlarmActions = nil })
		}, func() error { return putAlarm(func(*cloudwatch.PutMetricAlarmInput) {}) }, []string{"alarm-states"}, "AlarmActions"},
		{"less memory", func() error { return memory(128) }, func() error { return memory(512) }, []string{"function-settings"}, "got 128, want 512"},
		{"no recovery", func() error { return recovery(false) }, func() error { return recovery(true) }, []string{"records-table"}, "no point-in-time recovery"},
		{"rule disabled", func() error { return insight("DISABLED") }, func() error { return insight("ENABLED") }, []string{"insight-rule"}, "got DISABLED, want ENABLED"},
		{"dashboard without the search", func() (err error) {
			if dashboard, err = client.GetDashboard(t.Context(), &cloudwatch.GetDashboardInput{DashboardName: aws.String(physical(t, s, "Dashboard"))}); err != nil {
				return err
			}
			return putDashboard(`{"widgets":[]}`)
		}, func() error { return putDashboard(aws.ToString(dashboard.DashboardBody)) }, []string{"dashboard"}, "no SEARCH"},
		{"error in the log", func() error {
			return logLine(t, c, physical(t, s, "LimitsAuthorizerLogs"), `{"level":"WARN","msg":"subject hash key not read; this environment uses a random key"}`)
		}, nil, []string{"log-errors", "subject-key-policy"}, "subject hash key not read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.spoil(); err != nil {
				t.Fatal(err)
			}
			all := checkAll(t, s)
			if got := failing(all); !slices.Equal(got, c.rows) {
				t.Errorf("failing rows: got %v, want %v", got, c.rows)
			}
			if last := c.rows[len(c.rows)-1]; !strings.Contains(all[last].Raw, c.raw) {
				t.Errorf("%s: got %q, want %q in it", last, all[last].Raw, c.raw)
			}
			if c.fix != nil {
				if err := c.fix(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func logLine(t *testing.T, c *accounttest.Cloud, group, line string) error {
	t.Helper()
	client, stream := cloudwatchlogs.NewFromConfig(c.Config()), "stream"
	if _, err := client.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream}); err != nil {
		return err
	}
	_, err := client.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: []logs.InputLogEvent{{Message: &line, Timestamp: aws.Int64(time.Now().UnixMilli())}}})
	return err
}

// Resources of the template lack the faults that only the account shows.
func TestStack_resources(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	tables, err := s.Tables(t.Context())
	if err != nil || len(tables) != 1 || tables[0].TTL != "ttl" {
		t.Errorf("tables: got %+v, %v; want one with the attribute ttl", tables, err)
	}
	counters := physical(t, s, "LimitsCounters")
	if _, err := dynamodb.NewFromConfig(c.Config()).UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &counters, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(false)}}); err != nil {
		t.Fatal(err)
	}
	if tables, err = s.Tables(t.Context()); err != nil || tables[0].TTL != "" {
		t.Errorf("tables without a time to live: got %+v, %v; want no attribute", tables, err)
	}
	alarms, err := s.Alarms(t.Context())
	if err != nil || len(alarms) != 17 || slices.ContainsFunc(alarms, func(a verify.Alarm) bool { return a.Actions != 1 }) {
		t.Errorf("alarms: got %+v, %v; want 17 with one action each", alarms, err)
	}
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	if _, err := client.DisableAlarmActions(t.Context(), &cloudwatch.DisableAlarmActionsInput{AlarmNames: []string{"weir-dev-degraded"}}); err != nil {
		t.Fatal(err)
	}
	if alarms, err = s.Alarms(t.Context()); err != nil || !slices.ContainsFunc(alarms, func(a verify.Alarm) bool { return a.Actions == 0 }) {
		t.Errorf("alarms: got %+v, %v; want one without actions", alarms, err)
	}
	if _, err := client.DeleteAlarms(t.Context(), &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{"weir-dev-degraded"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Alarms(t.Context()); err == nil || !strings.Contains(err.Error(), "not in CloudWatch") {
		t.Errorf("a missing alarm: got error %v, want one", err)
	}
}

// A change is undone after an interrupt. What cannot be undone has a command.
func TestStack_BreakAuthorizer(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	var log strings.Builder
	s.Log = &log
	client, name := lambda.NewFromConfig(c.Config()), physical(t, s, "LimitsAuthorizerAA8B40AD")
	reserved := func() *int32 {
		out, err := client.GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
		if err != nil {
			t.Fatal(err)
		}
		return out.ReservedConcurrentExecutions
	}
	for _, before := range []*int32{nil, aws.Int32(7)} {
		if before != nil {
			if _, err := client.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{FunctionName: &name, ReservedConcurrentExecutions: before}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, interrupt := context.WithCancel(t.Context())
		restore, err := s.BreakAuthorizer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := reserved(); aws.ToInt32(got) != 0 || got == nil {
			t.Errorf("broken: got %v, want 0", got)
		}
		interrupt()
		if err := restore(ctx); err != nil {
			t.Fatal(err)
		}
		if got := reserved(); (got == nil) != (before == nil) || aws.ToInt32(got) != aws.ToInt32(before) {
			t.Errorf("restored: got %v, want %v", got, before)
		}
	}
	if !strings.Contains(log.String(), "aws lambda delete-function-concurrency --function-name "+name) {
		t.Errorf("log: got %s, want the command that undoes the change", log.String())
	}
	restore, err := s.BreakAuthorizer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failures := 0
	concurrency := func(limit int) func(string) string {
		return func(action string) string {
			if failures == limit || !strings.Contains(action, "concurrency") {
				return ""
			}
			failures++
			return "AccessDeniedException"
		}
	}
	c.OnCall(concurrency(1))
	if err := restore(t.Context()); err != nil || aws.ToInt32(reserved()) != 7 || len(s.Left()) > 0 {
		t.Errorf("a call that fails once: got error %v, left %v, want 7 restored", err, s.Left())
	}
	if restore, err = s.BreakAuthorizer(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.OnCall(concurrency(-1))
	if err := restore(t.Context()); err == nil {
		t.Error("restore: got no error, want one")
	}
	if left := s.Left(); len(left) != 1 || !strings.Contains(left[0], "aws lambda put-function-concurrency --reserved-concurrent-executions 7 --function-name "+name+" --region us-east-1") {
		t.Errorf("left: got %v, want the command with the region", left)
	}
	// The next run must not take this 0 for the value to restore.
	c.OnCall(nil)
	if _, err := s.BreakAuthorizer(t.Context()); err == nil || !strings.Contains(err.Error(), "aws lambda delete-function-concurrency --function-name "+name+" --region us-east-1") {
		t.Errorf("a reserved concurrency of 0: got error %v, want the command that removes it", err)
	}
}

// The alarm has its former state after the row, also after an interrupt.
func TestStack_alarmTopic(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	ctx, interrupt := context.WithCancel(t.Context())
	s.Wait = func(context.Context, time.Duration) error { interrupt(); return ctx.Err() }
	c.OnCall(func(action string) string {
		if action == "DescribeAlarmHistory" {
			interrupt()
		}
		return ""
	})
	if o := s.Check(ctx, "alarm-arrives"); o.Outcome == verify.Pass {
		t.Errorf("interrupted: got %+v, want no pass", o)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error("context: got no interrupt, want one")
	}
	found, err := client.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{"weir-dev-degraded"}})
	if err != nil || found.MetricAlarms[0].StateValue != watch.StateValueOk {
		t.Errorf("alarm: got %+v, %v; want the state OK", found, err)
	}
	if _, err := client.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: aws.String("weir-dev-degraded"), StateValue: watch.StateValueAlarm, StateReason: aws.String("test")}); err != nil {
		t.Fatal(err)
	}
	set := c.Called("SetAlarmState")
	if o := s.Check(t.Context(), "alarm-arrives"); o.Outcome != verify.Skip || c.Called("SetAlarmState") != set {
		t.Errorf("an alarm that has started: got %+v, want a skip and no change", o)
	}
}

// A call that the credentials do not permit skips its row.
func TestStack_denied(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	c.OnCall(func(action string) string {
		if action == "DescribeAlarms" {
			return "AccessDenied"
		}
		return ""
	})
	if o := s.Check(t.Context(), "alarm-states"); o.Outcome != verify.Skip || !strings.Contains(o.Reason, "do not permit") {
		t.Errorf("got %+v, want a skip with the reason", o)
	}
}

func unescape(t *testing.T, text string) string {
	t.Helper()
	plain, err := url.PathUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}
