package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/verify"
)

const (
	subscriptionType = "AWS::Logs::SubscriptionFilter"
	metricFilterType = "AWS::Logs::MetricFilter"
)

// settlementSubscription tests that lines of the access log reach the function Forward, and that it settles them.
func (s *Stack) settlementSubscription(ctx context.Context) (verify.Observation, error) {
	f, ok := s.settling()
	subscriptions := slices.DeleteFunc(s.of(subscriptionType), func(r Resource) bool { // others send notices
		return !strings.Contains(fmt.Sprint(r.Properties["FilterPattern"]), "$."+contract.LogReceipt)
	})
	if !ok || len(subscriptions) == 0 {
		return skipped("no access log is settled; deploy the stack with settle=true"), nil
	}
	receipts := 0
	for _, r := range subscriptions {
		lines, err := s.search(ctx, []string{s.value(r.Properties["LogGroupName"])}, fmt.Sprint(r.Properties["FilterPattern"]), s.began, latest())
		if err != nil {
			return verify.Observation{}, err
		}
		receipts += len(lines.texts)
	}
	if receipts == 0 {
		return skipped("no line of the access log since this run began has a receipt; send a request that a limit with count charges"), nil
	}
	return s.settled(ctx, f)
}

// settling returns the function Forward that has the counters.
func (s *Stack) settling() (Resource, bool) {
	for _, r := range s.weirFunctions() {
		if v := variables(r); v[contract.VariableFunction] == contract.Forward && v[contract.VariableStore] != contract.StoreMemory {
			return r, true
		}
	}
	return Resource{}, false
}

// settled tests that the function Forward has run since the run began, without errors.
func (s *Stack) settled(ctx context.Context, f Resource) (verify.Observation, error) {
	name := types.Dimension{Name: aws.String("FunctionName"), Value: &f.Physical}
	runs, err := s.await(ctx, "AWS/Lambda", "Invocations", name)
	if err != nil {
		return verify.Observation{}, err
	}
	failed, err := s.count(ctx, "AWS/Lambda", "Errors", name)
	if err != nil {
		return verify.Observation{}, err
	}
	lost, err := s.count(ctx, s.namespace(), telemetry.SettlementsLost)
	if err != nil {
		return verify.Observation{}, err
	}
	var problems []string
	if runs.now == 0 || failed.now+lost.now > 0 {
		problems = append(problems, fmt.Sprintf("%s: %.0f invocations, %.0f of them failed; %.0f settlements lost", f.ID, runs.now, failed.now, lost.now))
	}
	o := verdict("lines with a receipt that the function settles", fmt.Sprintf("%.0f invocations", runs.now), problems)
	o.Warning = lost.warning("lost settlements")
	return o, nil
}

func (s *Stack) filtered(r Resource) (names []string) {
	written, _ := r.Properties["MetricTransformations"].([]any)
	for _, each := range written {
		m, _ := each.(map[string]any)
		names = append(names, s.value(m["MetricName"]))
	}
	return names
}

func (s *Stack) authorizerMetric(ctx context.Context) (verify.Observation, error) {
	for _, r := range s.of(metricFilterType) {
		if !strings.Contains(fmt.Sprint(r.Properties["FilterPattern"]), "AUTHORIZER") {
			continue
		}
		names := strings.Join(s.filtered(r), ", ") // one name
		c, err := s.await(ctx, s.namespace(), names)
		if err != nil {
			return verify.Observation{}, err
		}
		var problems []string
		if c.now == 0 {
			problems = append(problems, "no data of the metric "+names)
		}
		return verdict("the metric "+names, fmt.Sprintf("%s = %.0f", names, c.now), problems), nil
	}
	return skipped("the stack has no metric filter of failed authorizers"), nil
}
