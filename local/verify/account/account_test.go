package account_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/verify/account"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

const stackName = "Weir-dev"

// deployed deploys a golden template and opens its stack. The functions have served a request.
func deployed(t *testing.T, golden string) (*accounttest.Cloud, *account.Stack) {
	t.Helper()
	return deployedAs(t, golden, "", "")
}

// deployedAs deploys a golden template in which it replaces a text.
func deployedAs(t *testing.T, golden, old, replacement string) (*accounttest.Cloud, *account.Stack) {
	t.Helper()
	template, err := os.ReadFile("../../../infra/golden/" + golden + ".template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	c.Deploy(t, stackName, []byte(strings.ReplaceAll(string(template), old, replacement)), nil)
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
	for _, name := range []string{"Allowed", "Refused", "RulesVersion", "AuthorizerFailed"} {
		put(t, c, time.Now(), "Weir/"+deployment, name, 20)
	}
	put(t, c, time.Now().Add(-20*time.Minute), "Weir/"+deployment, "Allowed", 20) // CloudWatch lists a metric after 15 minutes
	if regions := s.Regions(); regions != nil {
		put(t, c, time.Now(), "Weir/"+deployment, "RegionCalls", 20)
		for _, region := range regions { // each has a stack of its own
			c.CreateTable(t, region, "weir-dev-counters")
			c.CreateTable(t, region, "weir-dev-records")
		}
	}
	for _, r := range s.Resources() {
		exist(t, c, deployment, r)
		switch {
		case r.Type == "AWS::Kinesis::Stream":
			put(t, c, time.Now(), "AWS/Kinesis", "IncomingRecords", 20, "StreamName", r.Physical)
		case r.Type == "AWS::Logs::SubscriptionFilter":
			(&site{t, c, s}).logTo("RestAccess", time.Now(), `{"receipt":"AX8m"}`)
		case r.Type == "AWS::Lambda::Function" && (strings.HasPrefix(r.ID, "LimitsSigningKeys") || strings.HasPrefix(r.ID, "LimitsForward")):
			put(t, c, time.Now(), "AWS/Lambda", "Invocations", 20, "FunctionName", r.Physical)
		}
	}
	return c, s
}

// exist makes the metrics exist that AWS writes for a resource with traffic.
func exist(t *testing.T, c *accounttest.Cloud, deployment string, r account.Resource) {
	t.Helper()
	of := map[string]struct {
		namespace, dimension string
		names                []string
	}{
		"AWS::Lambda::Function":             {"AWS/Lambda", "FunctionName", []string{"Errors", "Invocations", "Throttles", "Duration", "ConcurrentExecutions"}},
		"AWS::DynamoDB::Table":              {"AWS/DynamoDB", "TableName", []string{"ConsumedWriteCapacityUnits"}},
		"AWS::ElastiCache::ServerlessCache": {"AWS/ElastiCache", "clusterId", []string{"ElastiCacheProcessingUnits"}},
		"AWS::ApiGatewayV2::Api":            {"AWS/ApiGateway", "ApiId", []string{"Count"}},
		"AWS::ApiGateway::RestApi":          {"AWS/ApiGateway", "ApiName", []string{"Count"}},
	}[r.Type]
	value := r.Physical
	switch r.Type {
	case "AWS::ApiGateway::RestApi":
		value, _ = r.Properties["Name"].(string)
	case "AWS::ElastiCache::ServerlessCache": // weir- and the namespace
		value = "weir-" + deployment
	}
	for _, name := range of.names {
		put(t, c, time.Now(), of.namespace, name, 0, of.dimension, value)
	}
}

// put adds a value to a metric. dimension is the name and the value of its dimension, or empty.
func put(t *testing.T, c *accounttest.Cloud, at time.Time, namespace, name string, value float64, dimension ...string) {
	t.Helper()
	datum := watch.MetricDatum{MetricName: &name, Value: &value, Timestamp: &at}
	if len(dimension) == 2 {
		datum.Dimensions = []watch.Dimension{{Name: &dimension[0], Value: &dimension[1]}}
	}
	client := cloudwatch.NewFromConfig(c.Config(), accounttest.Query)
	if _, err := client.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{Namespace: &namespace, MetricData: []watch.MetricDatum{datum}}); err != nil {
		t.Fatal(err)
	}
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

// checkAll returns the observations of the rows that fail, by ID.
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
		"everything":  {"appconfig", "domain-mappings", "regions-reached", "regions-settings", "regions-tables"},
		"dynamodb":    {"appconfig", "domain-mappings", "elasticache-login", "events", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription", "signing-keys-policy", "vpc-policy"},
		"cloudfront":  {"appconfig", "domain-mappings", "elasticache-login", "events", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription", "signing-keys-policy", "vpc-policy"},
		"regions":     {"appconfig", "domain-mappings", "elasticache-login", "events", "settlement-subscription", "signing-keys-policy", "vpc-policy"},
		"regions-two": {"appconfig", "domain-mappings", "elasticache-login", "events", "settlement-subscription", "signing-keys-policy", "vpc-policy"},
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
	for store, want := range map[string][]string{
		"dynamodb":    {"appconfig", "authorizer-metric", "domain-mappings", "elasticache-login", "events", "http-route-settings", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription", "signing-keys-policy", "vpc-policy"},
		"elasticache": {"appconfig", "authorizer-metric", "domain-mappings", "events", "http-route-settings", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription"},
	} {
		t.Run(store, func(t *testing.T) {
			c := accounttest.Start(t)
			api, err := apigateway.NewFromConfig(c.Config()).CreateRestApi(t.Context(), &apigateway.CreateRestApiInput{Name: aws.String(accounttest.ExistingAPI)})
			if err != nil {
				t.Fatal(err)
			}
			c.Deploy(t, stackName, template, map[string]string{
				"Namespace": "main", "CodeBucket": "bucket", "CodePrefix": "weir/", "Architecture": "arm64", "RestApiId": aws.ToString(api.Id), "Store": store,
				"Issuer": "https://issuer.example", "Audience": "api", "JWKS": "https://issuer.example/keys", "AccessLogGroup": "", "AlarmEmail": "", "ApiKeyHeader": "x-other",
				"ViewerAddress": "weir", "DirectRequests": "refuse",
			})
			_, s := opened(t, c, "main")
			if got := s.APIKeyHeader(); got != "x-other" {
				t.Errorf("header of API keys: got %q, want the parameter x-other", got)
			}
			if !s.RefusesDirect() {
				t.Error("requests around the distribution: got them admitted, want the parameter refuse")
			}
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
			if !slices.Equal(skipped, want) {
				t.Errorf("skipped rows: got %v, want %v", skipped, want)
			}
		})
	}
}

// Without metrics, each row that needs metrics as proof fails.
func TestStack_Check_silent(t *testing.T) {
	template, err := os.ReadFile("../../../infra/golden/everything.template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	c.Deploy(t, stackName, template, nil)
	s, err := account.Open(t.Context(), c.Config(), stackName)
	if err != nil {
		t.Fatal(err)
	}
	s.Wait = func(context.Context, time.Duration) error { return nil }
	s.Status = "UPDATE_ROLLBACK_COMPLETE"
	want := []string{"authorizer-metric", "deploy", "elasticache-login", "events", "metrics", "signing-keys-policy"}
	if got := failing(checkAll(t, s)); !slices.Equal(got, want) {
		t.Errorf("failing rows: got %v, want %v", got, want)
	}
}

// An alarm on a metric that does not exist fails the row, with the dimension that exists. Before CloudWatch can list the
// metrics, the row is skipped.
func TestStack_alarmMetrics(t *testing.T) {
	_, s := deployedAs(t, "elasticache", `"clusterId"`, `"ServerlessCacheName"`)
	const want = "no metric Evictions in AWS/ElastiCache with ServerlessCacheName=weir-dev; the dimension there is clusterId"
	if o := s.Check(t.Context(), "alarm-metrics"); o.Outcome != verify.Fail || !strings.Contains(o.Raw, want) {
		t.Errorf("another dimension: got %+v, want %q", o, want)
	}
	c, s := deployed(t, "elasticache")
	if o := s.Check(t.Context(), "alarm-metrics"); o.Outcome != verify.Pass || !strings.Contains(o.Warning, "Evictions, IamAuthenticationThrottling, ThrottledCmds in AWS/ElastiCache with clusterId=weir-dev") || strings.Contains(o.Warning, "Allowed") {
		t.Errorf("got %+v, want a pass that names the metrics without data", o)
	}
	c.Deny("ListMetrics")
	if o := s.Check(t.Context(), "alarm-metrics"); o.Outcome != verify.Skip {
		t.Errorf("denied: got %+v, want a skip", o)
	}
	template, err := os.ReadFile("../../../infra/golden/elasticache.template.json")
	if err != nil {
		t.Fatal(err)
	}
	c = accounttest.Start(t)
	c.Deploy(t, stackName, template, nil)
	if s, err = account.Open(t.Context(), c.Config(), stackName); err != nil {
		t.Fatal(err)
	}
	s.Wait = func(context.Context, time.Duration) error { return nil }
	for _, want := range []string{"no request was decided in the last hour", "CloudWatch lists a metric up to 15 minutes after its first data; run again later: no metric AuthenticationFailures in AWS/ElastiCache with clusterId=weir-dev"} {
		if o := s.Check(t.Context(), "alarm-metrics"); o.Outcome != verify.Skip || !strings.Contains(o.Reason, want) {
			t.Errorf("a new stack: got %+v, want a skip because %q", o, want)
		}
		put(t, c, time.Now(), "Weir/dev", "Allowed", 1)
	}
}

// An alarm on an API or a function that does not exist fails the row, although APIs and functions can be idle.
func TestStack_alarmMetrics_idle(t *testing.T) {
	check := func(old, replacement, existing string, rest, http bool) verify.Observation {
		t.Helper()
		c, s := deployedAs(t, "dynamodb", old, replacement)
		if existing != "" {
			if _, err := apigateway.NewFromConfig(c.Config()).CreateRestApi(t.Context(), &apigateway.CreateRestApiInput{Name: &existing}); err != nil {
				t.Fatal(err)
			}
		}
		s.REST, s.HTTP = rest, http
		return s.Check(t.Context(), "alarm-metrics")
	}
	const api, other = `"Name": "ApiName",
          "Value": "weir-dev"`, `"Name": "ApiName",
          "Value": "weird"`
	for _, tt := range []struct {
		old, replacement, existing string
		rest                       bool
		want                       string
	}{
		{api, other, "", false, "no metric Count in AWS/ApiGateway with ApiName=weird, and the account has no REST API of this name"},
		{api, other, "weird", true, "no metric Count in AWS/ApiGateway with ApiName=weird, although the run sent requests to an API of this kind"},
		{`"Name": "ApiName"`, `"Name": "APIName"`, "", false, "with APIName=weir-dev; the dimension there is ApiName"},
		{`"Name": "FunctionName"`, `"Name": "Function"`, "", false, "no metric Invocations in AWS/Lambda with Function="},
	} {
		if o := check(tt.old, tt.replacement, tt.existing, tt.rest, false); o.Outcome != verify.Fail || !strings.Contains(o.Raw, tt.want) {
			t.Errorf("%s: got %+v, want a failure with %q", tt.replacement, o, tt.want)
		}
	}
	if o := check(api, other, "weird", false, true); o.Outcome != verify.Pass || !strings.Contains(o.Warning, "5XXError, Count in AWS/ApiGateway with ApiName=weird") {
		t.Errorf("no request to the REST API: got %+v, want a pass that names the metrics", o)
	}
	if o := check("", "", "", true, true); o.Outcome != verify.Pass {
		t.Errorf("requests to both APIs: got %+v, want a pass", o)
	}
}

// Each row that needs a stack has a function that tests it. No other row has one.
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

// The check of a template does not find faults that only the account shows.
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
	if err != nil || len(alarms) != 19 || slices.ContainsFunc(alarms, func(a verify.Alarm) bool { return a.Actions != 1 }) {
		t.Errorf("alarms: got %+v, %v; want 19 with one action each", alarms, err)
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

// reserved returns the reserved concurrency of a function, or nil.
func reserved(t *testing.T, c *accounttest.Cloud, name string) *int32 {
	t.Helper()
	out, err := lambda.NewFromConfig(c.Config()).GetFunctionConcurrency(t.Context(), &lambda.GetFunctionConcurrencyInput{FunctionName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out.ReservedConcurrentExecutions
}

func reserve(t *testing.T, c *accounttest.Cloud, name string, n int32) {
	t.Helper()
	if _, err := lambda.NewFromConfig(c.Config()).PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{FunctionName: &name, ReservedConcurrentExecutions: &n}); err != nil {
		t.Fatal(err)
	}
}

// A change is undone after an interrupt. If the change cannot be undone, Left returns the command that
// undoes it.
func TestStack_BreakAuthorizer(t *testing.T) {
	c, s := deployed(t, "dynamodb")
	var log strings.Builder
	s.Log = &log
	name := physical(t, s, "LimitsAuthorizerAA8B40AD")
	for _, before := range []*int32{nil, aws.Int32(7)} {
		if before != nil {
			reserve(t, c, name, *before)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		restore, err := s.BreakAuthorizer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := reserved(t, c, name); aws.ToInt32(got) != 0 || got == nil {
			t.Errorf("broken: got %v, want 0", got)
		}
		interrupt()
		if err := restore(ctx); err != nil {
			t.Fatal(err)
		}
		if got := reserved(t, c, name); (got == nil) != (before == nil) || aws.ToInt32(got) != aws.ToInt32(before) {
			t.Errorf("restored: got %v, want %v", got, before)
		}
	}
	if !strings.Contains(log.String(), "aws lambda delete-function-concurrency --function-name "+name) {
		t.Errorf("log: got %s, want the command that undoes the change", log.String())
	}
	failToRestore(t, c, s, name)
}

// failToRestore tests calls that fail while the reserved concurrency of 7 is restored.
func failToRestore(t *testing.T, c *accounttest.Cloud, s *account.Stack, name string) {
	t.Helper()
	failing := func(limit int) {
		failures := 0
		c.OnCall(func(action string) string {
			if failures == limit || !strings.Contains(action, "concurrency") {
				return ""
			}
			failures++
			return "AccessDeniedException"
		})
	}
	restore, err := s.BreakAuthorizer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failing(1)
	if err := restore(t.Context()); err != nil || aws.ToInt32(reserved(t, c, name)) != 7 || len(s.Left()) > 0 {
		t.Errorf("a call that fails once: got error %v, left %v, want 7 restored", err, s.Left())
	}
	if restore, err = s.BreakAuthorizer(t.Context()); err != nil {
		t.Fatal(err)
	}
	failing(-1)
	if err := restore(t.Context()); err == nil {
		t.Error("restore: got no error, want one")
	}
	if left := s.Left(); len(left) != 1 || !strings.Contains(left[0], "aws lambda put-function-concurrency --reserved-concurrent-executions 7 --function-name "+name+" --region us-east-1") {
		t.Errorf("left: got %v, want the command with the region", left)
	}
	// The reserved concurrency is still 0. The next run must not use this 0 as the value to restore.
	c.OnCall(nil)
	if _, err := s.BreakAuthorizer(t.Context()); err == nil || !strings.Contains(err.Error(), "aws lambda delete-function-concurrency --function-name "+name+" --region us-east-1") {
		t.Errorf("a reserved concurrency of 0: got error %v, want the command that removes it", err)
	}
}

// After the row, even after an interrupted one, the alarm has its former state.
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
