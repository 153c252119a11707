package accounttest

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// simulate evaluates one action on one resource with the inline policies of a role. It knows the condition
// of leading keys only.
func (c *Cloud) simulate(ctx context.Context, form url.Values) (string, error) {
	_, role, _ := strings.Cut(form.Get("PolicySourceArn"), ":role/")
	action, resource, key := form.Get("ActionNames.member.1"), form.Get("ResourceArns.member.1"), form.Get("ContextEntries.member.1.ContextKeyValues.member.1")
	roles := iam.NewFromConfig(c.behind())
	names, err := roles.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: &role})
	if err != nil {
		return "", err
	}
	decision := "implicitDeny"
	for _, name := range names.PolicyNames {
		out, err := roles.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: &role, PolicyName: &name})
		if err != nil {
			return "", err
		}
		text, err := url.PathUnescape(aws.ToString(out.PolicyDocument))
		if err != nil {
			return "", err
		}
		if permits(text, action, resource, key) {
			decision = "allowed"
		}
	}
	return "<EvaluationResults><member>" + element("EvalActionName", action) + element("EvalDecision", decision) + "</member></EvaluationResults>", nil
}

func permits(document, action, resource, key string) bool {
	var policy struct {
		Statement []struct {
			Action, Resource any
			Condition        map[string]map[string]any
		}
	}
	if json.Unmarshal([]byte(document), &policy) != nil {
		return false
	}
	for _, s := range policy.Statement {
		keys := s.Condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
		if slices.Contains(list(s.Action), action) && slices.Contains(list(s.Resource), resource) && (keys == nil || slices.Contains(list(keys), key)) {
			return true
		}
	}
	return false
}

func list(v any) (all []string) {
	values, ok := v.([]any)
	if !ok {
		values = []any{v}
	}
	for _, each := range values {
		if text, ok := each.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// alarmHistory has the action of an alarm that is in the state ALARM.
func (c *Cloud) alarmHistory(ctx context.Context, form url.Values) (string, error) {
	name := form.Get("AlarmName")
	out, err := c.watch().DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{name}})
	if err != nil {
		return "", err
	}
	if len(out.MetricAlarms) == 0 || out.MetricAlarms[0].StateValue != types.StateValueAlarm || len(out.MetricAlarms[0].AlarmActions) == 0 {
		return "<AlarmHistoryItems/>", nil
	}
	return "<AlarmHistoryItems><member>" + element("AlarmName", name) + element("HistorySummary", "Successfully executed action "+out.MetricAlarms[0].AlarmActions[0]) + "</member></AlarmHistoryItems>", nil
}

func (*Cloud) metricData(context.Context, url.Values) (string, error) {
	return "<MetricDataResults><member>" + element("Id", "search") + element("Label", "GET /api/v1/search") + "</member></MetricDataResults>", nil
}

// detected is the time of every drift detection.
const detected = "2026-11-22T12:00:00Z"

func (c *Cloud) detectDrift(_ context.Context, form url.Values) (string, error) {
	_, err := c.deployed(form)
	return element("StackDriftDetectionId", "detection"), err
}

func (*Cloud) driftStatus(_ context.Context, form url.Values) (string, error) {
	return element("StackDriftDetectionId", form.Get("StackDriftDetectionId")) + element("DetectionStatus", "DETECTION_COMPLETE") + element("Timestamp", detected), nil
}

// resourceDrifts has a result for each resource whose type CloudFormation can compare.
func (c *Cloud) resourceDrifts(_ context.Context, form url.Values) (string, error) {
	s, err := c.deployed(form)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, id := range s.order {
		if kind := s.types[id]; kind == "AWS::IAM::Policy" || kind == "AWS::SNS::TopicPolicy" || strings.HasPrefix(kind, "Custom::") {
			continue
		}
		status, difference := "IN_SYNC", ""
		if slices.Contains(c.drifted, id) {
			status, difference = "MODIFIED", "<member>"+element("PropertyPath", "/Name")+element("ActualValue", "other")+element("ExpectedValue", "name")+element("DifferenceType", "NOT_EQUAL")+"</member>"
		}
		b.WriteString("<member>" + element("LogicalResourceId", id) + element("ResourceType", s.types[id]) + element("StackResourceDriftStatus", status) +
			element("Timestamp", detected) + "<PropertyDifferences>" + difference + "</PropertyDifferences></member>")
	}
	return "<StackResourceDrifts>" + b.String() + "</StackResourceDrifts>", nil
}
