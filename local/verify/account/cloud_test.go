package account_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apis "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	webs "github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	formation "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	tables "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	roles "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	functions "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/local/verify/account"
)

// cloud is a small AWS account: values with which it answers the calls of rows. A call of any other operation goes to the
// endpoint of its configuration.
type cloud struct {
	templates  map[string]string // of the stack, by region; "" for the other regions
	parameters map[string]string
	conditions []string // those that hold
	drifts     []formation.StackResourceDrift

	alarms      []watch.MetricAlarm
	points      []point
	lines       []line
	dashboard   string
	tables      []string                      // as region/name
	concurrency *int32                        // reserved for the authorizer
	policies    map[string]string             // of the one role, by name
	managed     []string                      // policies of the role
	restAPIs    []string                      // names
	routes      map[string]webs.RouteSettings // of the stage of the HTTP API
	mappings    []string                      // paths of the domain

	emulated aws.Config        // of an emulator, which then answers all calls that it supports; zero for none
	ids      map[string]string // physical ids of resources whose id is neither a name in the template nor weir-dev- and the logical id

	// fail returns the error code of a call, or "". calls are the operations that were called.
	fail  func(operation string) string
	calls []string
}

// point is a value of a metric. dimension is empty, or one as name=value.
type point struct {
	at                         time.Time
	namespace, name, dimension string
	value                      float64
}

// line is a line of a log group.
type line struct {
	at          time.Time
	group, text string
}

// config returns the configuration of clients of the account.
func (c *cloud) config() aws.Config {
	answer := middleware.InitializeMiddlewareFunc("answer", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
		operation := awsmiddleware.GetOperationName(ctx)
		c.calls = append(c.calls, operation)
		if c.fail != nil {
			if code := c.fail(operation); code != "" {
				return out, metadata, &smithy.GenericAPIError{Code: code, Message: "refused by the test"}
			}
		}
		for _, answer := range []func(any) any{c.answerStack(awsmiddleware.GetRegion(ctx)), c.answerWatch, c.answerRole, c.answerOther} {
			if emulated := c.emulated.BaseEndpoint != nil && !slices.Contains(unemulated, operation); emulated && awsmiddleware.GetServiceID(ctx) != cloudformation.ServiceID {
				return next.HandleInitialize(ctx, in)
			}
			if out.Result = answer(in.Parameters); out.Result != nil {
				return out, metadata, nil
			}
		}
		if table, ok := in.Parameters.(*dynamodb.DescribeTableInput); ok {
			if !slices.Contains(c.tables, awsmiddleware.GetRegion(ctx)+"/"+*table.TableName) {
				return out, metadata, &tables.ResourceNotFoundException{}
			}
			return middleware.InitializeOutput{Result: &dynamodb.DescribeTableOutput{Table: &tables.TableDescription{TableStatus: tables.TableStatusActive}}}, metadata, nil
		}
		return next.HandleInitialize(ctx, in)
	})
	config := c.emulated.Copy()
	config.Region = "us-east-1"
	config.APIOptions = append(config.APIOptions, func(s *middleware.Stack) error { return s.Initialize.Add(answer, middleware.After) })
	return config
}

// unemulated are the operations that Moto does not support, and the one whose effect an alarm's history shows.
var unemulated = []string{"SimulatePrincipalPolicy", "SetAlarmState", "DescribeAlarmHistory", "GetMetricData"}

func physical(id string) string { return "weir-dev-" + strings.ToLower(id) }

// answerStack returns the answers of CloudFormation in a region.
func (c *cloud) answerStack(region string) func(any) any {
	template, ok := c.templates[region]
	if !ok {
		template = c.templates[""]
	}
	return func(in any) any {
		switch in := in.(type) {
		case *cloudformation.DescribeStacksInput:
			s := formation.Stack{StackStatus: formation.StackStatusCreateComplete}
			for key, value := range c.parameters {
				s.Parameters = append(s.Parameters, formation.Parameter{ParameterKey: &key, ParameterValue: &value})
			}
			return &cloudformation.DescribeStacksOutput{Stacks: []formation.Stack{s}}
		case *cloudformation.GetTemplateInput:
			return &cloudformation.GetTemplateOutput{TemplateBody: &template}
		case *cloudformation.ListStackResourcesInput:
			return &cloudformation.ListStackResourcesOutput{StackResourceSummaries: c.resources(template)}
		case *cloudformation.DetectStackDriftInput:
			return &cloudformation.DetectStackDriftOutput{StackDriftDetectionId: aws.String("detection")}
		case *cloudformation.DescribeStackDriftDetectionStatusInput:
			return &cloudformation.DescribeStackDriftDetectionStatusOutput{StackDriftDetectionId: in.StackDriftDetectionId, DetectionStatus: formation.StackDriftDetectionStatusDetectionComplete}
		case *cloudformation.DescribeStackResourceDriftsInput:
			return &cloudformation.DescribeStackResourceDriftsOutput{StackResourceDrifts: c.drifts}
		}
		return nil
	}
}

// resources lists the resources of a template that have no condition, or one that holds.
func (c *cloud) resources(template string) (all []formation.StackResourceSummary) {
	var t struct {
		Resources map[string]struct {
			Type, Condition string
			Properties      map[string]any
		}
	}
	_ = json.Unmarshal([]byte(template), &t) // a template without JSON has no resources
	for id, r := range t.Resources {
		if r.Condition == "" || slices.Contains(c.conditions, r.Condition) {
			name, _ := r.Properties["AlarmName"].(string)
			all = append(all, formation.StackResourceSummary{LogicalResourceId: &id, PhysicalResourceId: aws.String(cmp.Or(c.ids[id], name, physical(id))), ResourceType: aws.String(r.Type), ResourceStatus: formation.ResourceStatusCreateComplete})
		}
	}
	return all
}

// dimension returns the only dimension as name=value, or "".
func dimension(all []watch.Dimension) string {
	if len(all) == 0 {
		return ""
	}
	return *all[0].Name + "=" + *all[0].Value
}

// dimensions is the reverse of dimension.
func dimensions(text string) []watch.Dimension {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return nil
	}
	return []watch.Dimension{{Name: &name, Value: &value}}
}

// answerWatch returns the answers of CloudWatch and its logs.
func (c *cloud) answerWatch(in any) any {
	switch in := in.(type) {
	case *cloudwatch.GetMetricStatisticsInput:
		out := &cloudwatch.GetMetricStatisticsOutput{}
		for _, p := range c.points {
			if p.namespace == *in.Namespace && p.name == *in.MetricName && p.dimension == dimension(in.Dimensions) && !p.at.Before(*in.StartTime) && p.at.Before(*in.EndTime) {
				out.Datapoints = append(out.Datapoints, watch.Datapoint{Timestamp: &p.at, Sum: &p.value})
			}
		}
		return out
	case *cloudwatch.ListMetricsInput:
		out := &cloudwatch.ListMetricsOutput{}
		for _, p := range c.points {
			if p.namespace == *in.Namespace && (len(in.Dimensions) == 0 || p.dimension == *in.Dimensions[0].Name+"="+*in.Dimensions[0].Value) {
				out.Metrics = append(out.Metrics, watch.Metric{Namespace: &p.namespace, MetricName: &p.name, Dimensions: dimensions(p.dimension)})
			}
		}
		return out
	case *cloudwatch.DescribeAlarmsInput:
		named := func(a watch.MetricAlarm) bool { return slices.Contains(in.AlarmNames, *a.AlarmName) }
		return &cloudwatch.DescribeAlarmsOutput{MetricAlarms: slices.DeleteFunc(slices.Clone(c.alarms), func(a watch.MetricAlarm) bool { return !named(a) })}
	case *cloudwatch.SetAlarmStateInput:
		c.alarm(*in.AlarmName).StateValue = in.StateValue
		return &cloudwatch.SetAlarmStateOutput{}
	case *cloudwatch.DescribeAlarmHistoryInput:
		out := &cloudwatch.DescribeAlarmHistoryOutput{}
		if a := c.alarm(*in.AlarmName); a.StateValue == watch.StateValueAlarm && len(a.AlarmActions) > 0 {
			out.AlarmHistoryItems = []watch.AlarmHistoryItem{{HistorySummary: aws.String("Successfully executed action " + a.AlarmActions[0])}}
		}
		return out
	case *cloudwatch.GetDashboardInput:
		return &cloudwatch.GetDashboardOutput{DashboardBody: &c.dashboard}
	case *cloudwatch.GetMetricDataInput:
		return &cloudwatch.GetMetricDataOutput{MetricDataResults: []watch.MetricDataResult{{Id: aws.String("search")}}}
	case *cloudwatchlogs.FilterLogEventsInput:
		out := &cloudwatchlogs.FilterLogEventsOutput{}
		for _, l := range c.lines { // every line matches a pattern of fields
			if text, plain := strings.CutPrefix(*in.FilterPattern, `"`); l.group == *in.LogGroupName && l.at.UnixMilli() >= *in.StartTime && l.at.UnixMilli() < *in.EndTime && (!plain || strings.Contains(l.text, strings.TrimSuffix(text, `"`))) {
				out.Events = append(out.Events, logs.FilteredLogEvent{Message: &l.text, Timestamp: aws.Int64(l.at.UnixMilli())})
			}
		}
		return out
	}
	return nil
}

func (c *cloud) alarm(name string) *watch.MetricAlarm {
	return &c.alarms[slices.IndexFunc(c.alarms, func(a watch.MetricAlarm) bool { return *a.AlarmName == name })]
}

// answerRole returns the answers of IAM about the one role.
func (c *cloud) answerRole(in any) any {
	switch in := in.(type) {
	case *iam.GetRoleInput:
		return &iam.GetRoleOutput{Role: &roles.Role{Arn: aws.String("arn:aws:iam::123456789012:role/" + *in.RoleName)}}
	case *iam.GetRolePolicyInput:
		return &iam.GetRolePolicyOutput{PolicyDocument: aws.String(url.PathEscape(c.policies[*in.PolicyName]))}
	case *iam.ListRolePoliciesInput:
		out := &iam.ListRolePoliciesOutput{}
		for name := range c.policies {
			out.PolicyNames = append(out.PolicyNames, name)
		}
		return out
	case *iam.ListAttachedRolePoliciesInput:
		out := &iam.ListAttachedRolePoliciesOutput{}
		for _, name := range c.managed {
			out.AttachedPolicies = append(out.AttachedPolicies, roles.AttachedPolicy{PolicyName: &name})
		}
		return out
	case *iam.SimulatePrincipalPolicyInput:
		decision := roles.PolicyEvaluationDecisionTypeImplicitDeny
		if c.permits(in) {
			decision = roles.PolicyEvaluationDecisionTypeAllowed
		}
		return &iam.SimulatePrincipalPolicyOutput{EvaluationResults: []roles.EvaluationResult{{EvalDecision: decision}}}
	}
	return nil
}

// permits evaluates a call with the policies of the role. It knows the condition of leading keys only.
func (c *cloud) permits(in *iam.SimulatePrincipalPolicyInput) bool {
	for _, text := range c.policies {
		var policy struct {
			Statement []struct {
				Action, Resource any
				Condition        map[string]map[string][]string
			}
		}
		_ = json.Unmarshal([]byte(text), &policy) // a policy without JSON permits nothing
		for _, s := range policy.Statement {
			keys := s.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
			permitted := keys == nil || len(in.ContextEntries) > 0 && slices.Contains(keys, in.ContextEntries[0].ContextKeyValues[0])
			if permitted && names(s.Action, in.ActionNames[0]) && names(s.Resource, in.ResourceArns[0]) {
				return true
			}
		}
	}
	return false
}

// names reports whether a value of a policy is a text, or a list with it.
func names(v any, text string) bool {
	list, _ := v.([]any)
	return v == any(text) || slices.Contains(list, any(text))
}

// answerOther returns the answers of Lambda and API Gateway.
func (c *cloud) answerOther(in any) any {
	switch in := in.(type) {
	case *lambda.GetFunctionConfigurationInput:
		return &lambda.GetFunctionConfigurationOutput{FunctionName: in.FunctionName, State: functions.StateActive, VpcConfig: &functions.VpcConfigResponse{SubnetIds: []string{"subnet"}}}
	case *lambda.GetFunctionConcurrencyInput:
		return &lambda.GetFunctionConcurrencyOutput{ReservedConcurrentExecutions: c.concurrency}
	case *lambda.PutFunctionConcurrencyInput:
		c.concurrency = in.ReservedConcurrentExecutions
		return &lambda.PutFunctionConcurrencyOutput{}
	case *lambda.DeleteFunctionConcurrencyInput:
		c.concurrency = nil
		return &lambda.DeleteFunctionConcurrencyOutput{}
	case *apigateway.GetRestApisInput:
		out := &apigateway.GetRestApisOutput{}
		for _, name := range c.restAPIs {
			out.Items = append(out.Items, apis.RestApi{Name: &name})
		}
		return out
	case *apigatewayv2.GetStageInput:
		return &apigatewayv2.GetStageOutput{RouteSettings: c.routes}
	case *apigatewayv2.GetDomainNamesInput:
		return &apigatewayv2.GetDomainNamesOutput{Items: []webs.DomainName{{DomainName: aws.String("api.example.com")}}}
	case *apigatewayv2.GetApiMappingsInput:
		out := &apigatewayv2.GetApiMappingsOutput{Items: []webs.ApiMapping{{ApiId: aws.String("other"), ApiMappingKey: aws.String("other")}}}
		for _, path := range c.mappings {
			out.Items = append(out.Items, webs.ApiMapping{ApiId: aws.String(physical("Web")), ApiMappingKey: &path})
		}
		return out
	}
	return nil
}

// alarmOn returns an alarm on metrics with one dimension, or none.
func alarmOn(id, namespace, dimension string, names ...string) watch.MetricAlarm {
	a := watch.MetricAlarm{AlarmName: aws.String(physical(id)), StateValue: watch.StateValueOk, ActionsEnabled: aws.Bool(true), AlarmActions: []string{"topic"}}
	if len(names) == 1 {
		a.Namespace, a.MetricName, a.Dimensions = &namespace, &names[0], dimensions(dimension)
		return a
	}
	for _, name := range names {
		metric := &watch.Metric{Namespace: &namespace, MetricName: &name, Dimensions: dimensions(dimension)}
		a.Metrics = append(a.Metrics, watch.MetricDataQuery{Id: aws.String("m" + name), MetricStat: &watch.MetricStat{Metric: metric, Period: aws.Int32(60), Stat: aws.String("Sum")}})
	}
	return a
}

// during is a time after the run began, also if the test is slow. The clock of AWS may be ahead.
func during() time.Time { return time.Now().Add(2 * time.Minute) }

// deployed is the policy of the template as IAM has it.
const deployed = `{"Version": "2012-10-17", "Statement": [
	{"Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"], "Resource": ["arn:aws:dynamodb:us-east-1:123456789012:table/weir-dev-counters", "arn:aws:dynamodb:eu-central-1:123456789012:table/weir-dev-counters"]},
	{"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": "arn:aws:logs:us-east-1:123456789012:log-group:weir-dev-log"},
	{"Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "arn:aws:dynamodb:us-east-1:123456789012:table/weir-dev-records", "Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["subjectkey"]}}}
]}`

// healthy returns the account of testdata/site.template.json, in which each row passes.
func healthy(t *testing.T) *cloud {
	t.Helper()
	template, err := os.ReadFile("testdata/site.template.json")
	if err != nil {
		t.Fatal(err)
	}
	now, ago := during(), time.Now().Add(-20*time.Minute)
	c := &cloud{
		templates: map[string]string{"": string(template)},
		alarms: []watch.MetricAlarm{
			alarmOn("ApiErrors", "AWS/ApiGateway", "ApiName=weir-dev", "Count", "5XXError"), alarmOn("Cache", "AWS/ElastiCache", "clusterId=weir-dev", "ElastiCacheProcessingUnits", "Evictions"),
			alarmOn("ClockSkew", "Weir/dev", "", "ClockSkew"), alarmOn("Degraded", "Weir/dev", "", "Degraded"), alarmOn("FunctionErrors", "AWS/Lambda", "FunctionName=weir-dev-authorizer", "Errors"),
			alarmOn("Rejected", "Weir/dev", "FunctionName=weir-dev-authorizer", "Unauthorized"), alarmOn("Throttled", "AWS/DynamoDB", "TableName=weir-dev-counters", "ConsumedWriteCapacityUnits", "WriteThrottleEvents"),
		},
		points: []point{
			{ago, "Weir/dev", "Allowed", "", 20}, {now, "AWS/ApiGateway", "Count", "ApiName=weir-dev", 20}, {now, "AWS/Lambda", "Errors", "FunctionName=weir-dev-authorizer", 0},
			{now, "AWS/ElastiCache", "ElastiCacheProcessingUnits", "clusterId=weir-dev", 20}, {now, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", "TableName=weir-dev-counters", 20},
			{now, "AWS/Lambda", "Invocations", "FunctionName=weir-dev-forward", 20}, {now, "AWS/Lambda", "Invocations", "FunctionName=weir-dev-signingkeys", 20}, {now, "AWS/Kinesis", "IncomingRecords", "StreamName=weir-dev-stream", 20},
		},
		lines:     []line{{now, "weir-dev-accesslog", `{"receipt":"AX8m"}`}},
		dashboard: `{"widgets":[{"properties":{"metrics":[[{"expression":"SEARCH('{Weir/dev,Rule} RuleRefused', 'Sum')"}]]}}]}`,
		tables:    []string{"us-east-1/weir-dev-counters", "us-east-1/weir-dev-records", "eu-central-1/weir-dev-counters", "eu-central-1/weir-dev-records"},
		policies:  map[string]string{"policy": deployed}, restAPIs: []string{"weir-dev"}, mappings: []string{"v1"},
	}
	for _, name := range []string{"Allowed", "Refused", "RulesVersion", "AuthorizerFailed", "RegionCalls"} {
		c.points = append(c.points, point{now, "Weir/dev", name, "", 20})
	}
	for _, r := range c.resources(string(template)) {
		c.drifts = append(c.drifts, formation.StackResourceDrift{LogicalResourceId: r.LogicalResourceId, StackResourceDriftStatus: formation.StackResourceDriftStatusInSync})
	}
	return c
}

func (c *cloud) add(at time.Time, namespace, name, dimension string, value float64) {
	c.points = append(c.points, point{at, namespace, name, dimension, value})
}

// replace replaces a text in the template.
func (c *cloud) replace(old, replacement string) {
	c.templates[""] = strings.ReplaceAll(c.templates[""], old, replacement)
}

// open opens the stack of the account. It waits for nothing.
func (c *cloud) open(t *testing.T) *account.Stack {
	t.Helper()
	s, err := account.Open(t.Context(), c.config(), "Weir-dev")
	if err != nil {
		t.Fatal(err)
	}
	s.Wait = func(context.Context, time.Duration) error { return nil }
	return s
}
