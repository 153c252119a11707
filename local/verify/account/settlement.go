package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	functions "github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

const (
	subscriptionType = "AWS::Logs::SubscriptionFilter"
	metricFilterType = "AWS::Logs::MetricFilter"
)

// settlementSubscription tests that lines of the access log reach the function Settle, and that it settles them.
func (s *Stack) settlementSubscription(ctx context.Context) (verify.Observation, error) {
	f, ok := s.function(contract.Settle)
	subscriptions := s.of(subscriptionType)
	if !ok || len(subscriptions) == 0 {
		return skipped("no access log is settled; deploy the stack with settle=true"), nil
	}
	const expected = "the subscription of the template, and lines that the function settles"
	problems, err := s.invocable(ctx, f)
	if err != nil {
		return verify.Observation{}, err
	}
	receipts := matches{}
	for _, r := range subscriptions {
		group := s.value(r.Properties["LogGroupName"])
		out, err := s.logs.DescribeSubscriptionFilters(ctx, &cloudwatchlogs.DescribeSubscriptionFiltersInput{LogGroupName: &group})
		if err != nil {
			return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
		}
		var found []map[string]any
		for _, each := range out.SubscriptionFilters {
			found = append(found, map[string]any{"DestinationArn": each.DestinationArn, "FilterPattern": each.FilterPattern})
		}
		problems = append(problems, s.among(r, found)...)
		lines, err := s.search(ctx, []string{group}, fmt.Sprint(r.Properties["FilterPattern"]), s.began, latest())
		if err != nil {
			return verify.Observation{}, err
		}
		receipts.texts = append(receipts.texts, lines.texts...)
	}
	switch {
	case len(problems) > 0:
		return verdict(expected, "", problems), nil
	case len(receipts.texts) == 0:
		return skipped("no line of the access log since this run began has a receipt; send a request that a limit with count charges"), nil
	}
	return s.settled(ctx, f, expected)
}

// settled tests that the function Settle has run since the run began, without errors.
func (s *Stack) settled(ctx context.Context, f Resource, expected string) (verify.Observation, error) {
	name := types.Dimension{Name: aws.String("FunctionName"), Value: &f.Physical}
	runs, err := s.await(ctx, "AWS/Lambda", "Invocations", name)
	if err != nil {
		return verify.Observation{}, err
	}
	failed, err := s.count(ctx, "AWS/Lambda", "Errors", name)
	if err != nil {
		return verify.Observation{}, err
	}
	lost, err := s.count(ctx, s.namespace(), contract.MetricSettlementsLost)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if runs.now == 0 || failed.now+lost.now > 0 {
		problems = append(problems, fmt.Sprintf("%s: %.0f invocations, %.0f of them failed; %.0f settlements lost", f.ID, runs.now, failed.now, lost.now))
	}
	o := verdict(expected, fmt.Sprintf("%.0f invocations", runs.now), problems)
	o.Warning = lost.warning("lost settlements")
	return o, nil
}

// invocable tests that CloudWatch Logs may invoke a function.
func (s *Stack) invocable(ctx context.Context, f Resource) (problems []string, err error) {
	out, err := s.functions.GetPolicy(ctx, &lambda.GetPolicyInput{FunctionName: &f.Physical})
	if _, none := errors.AsType[*functions.ResourceNotFoundException](err); err != nil && !none {
		return nil, fmt.Errorf("%s: %w", f.ID, err)
	}
	var policy struct {
		Statement []struct{ Principal struct{ Service string } }
	}
	if out != nil {
		if err := json.Unmarshal([]byte(aws.ToString(out.Policy)), &policy); err != nil {
			return nil, fmt.Errorf("%s: policy: %w", f.ID, err)
		}
	}
	for _, statement := range policy.Statement {
		if strings.HasPrefix(statement.Principal.Service, "logs.") {
			return nil, nil
		}
	}
	return []string{f.ID + ": its policy does not permit CloudWatch Logs to invoke it"}, nil
}

// among returns the differences between a resource and what a log has. It returns none if one of found is equal.
func (s *Stack) among(r Resource, found []map[string]any) (problems []string) {
	for _, each := range found {
		differs := s.compare(r, each)
		if len(differs) == 0 {
			return nil
		}
		problems = append(problems, differs...)
	}
	return append(problems, fmt.Sprintf("%s: none of %d filters of its log is as in the template", r.ID, len(found)))
}

// metricFilters compares the metric filters of logs with the template.
func (s *Stack) metricFilters(ctx context.Context) (verify.Observation, error) {
	var problems []string
	filters := s.of(metricFilterType)
	for _, r := range filters {
		group := s.value(r.Properties["LogGroupName"])
		pages := cloudwatchlogs.NewDescribeMetricFiltersPaginator(s.logs, &cloudwatchlogs.DescribeMetricFiltersInput{LogGroupName: &group})
		var found []map[string]any
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return verify.Observation{}, fmt.Errorf("%s: %w", r.ID, err)
			}
			for _, each := range page.MetricFilters {
				found = append(found, map[string]any{"FilterPattern": each.FilterPattern, "MetricTransformations": transformations(each)})
			}
		}
		problems = append(problems, s.among(r, found)...)
	}
	if len(filters) == 0 {
		return skipped("the stack has no metric filter"), nil
	}
	return verdict("the metric filters of the template", fmt.Sprintf("%d filters", len(filters)), problems), nil
}

// transformations returns the metrics of a filter, without empty properties.
func transformations(f logs.MetricFilter) (all []any) {
	for _, t := range f.MetricTransformations {
		made, _ := plain(t).(map[string]any)
		for key, value := range made {
			if value == nil || value == "" {
				delete(made, key)
			}
		}
		all = append(all, made)
	}
	return all
}

// authorizerMetric awaits the metric of the requests whose authorizer failed.
func (s *Stack) authorizerMetric(ctx context.Context) (verify.Observation, error) {
	filters := slices.DeleteFunc(s.of(metricFilterType), func(r Resource) bool {
		return !strings.Contains(fmt.Sprint(r.Properties["FilterPattern"]), "AUTHORIZER")
	})
	if len(filters) == 0 {
		return skipped("the stack has no metric filter of failed authorizers"), nil
	}
	var metric struct {
		MetricTransformations []struct{ MetricNamespace, MetricName any }
	}
	data, err := json.Marshal(filters[0].Properties)
	if err = errors.Join(err, json.Unmarshal(data, &metric)); err != nil || len(metric.MetricTransformations) == 0 {
		return verify.Observation{}, fmt.Errorf("%s: no metric: %w", filters[0].ID, err)
	}
	name := s.value(metric.MetricTransformations[0].MetricName)
	c, err := s.await(ctx, s.value(metric.MetricTransformations[0].MetricNamespace), name)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if c.now == 0 {
		problems = append(problems, "no data of the metric "+name)
	}
	return verdict("the metric "+name, fmt.Sprintf("%s = %.0f", name, c.now), problems), nil
}
