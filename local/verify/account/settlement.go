package account

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/verify"
)

const (
	subscriptionType = "AWS::Logs::SubscriptionFilter"
	metricFilterType = "AWS::Logs::MetricFilter"
)

// settlementSubscription tests that lines of the access log reach the function Log, and that it settles them.
func (s *Stack) settlementSubscription(ctx context.Context) verify.Observation {
	f, ok := s.settling()
	subscriptions := slices.DeleteFunc(s.of(subscriptionType), func(r Resource) bool { // others send notices
		return !strings.Contains(fmt.Sprint(r.Properties["FilterPattern"]), "$."+contract.LogReceipt)
	})
	if !ok || len(subscriptions) == 0 {
		return skipped("no access log is settled; deploy the stack with settle=true")
	}
	receipts := 0
	for _, r := range subscriptions {
		receipts += len(s.search(ctx, []string{s.value(r.Properties["LogGroupName"])}, fmt.Sprint(r.Properties["FilterPattern"]), s.began, latest()).texts)
	}
	if receipts == 0 {
		return skipped("no line of the access log since this run began has a receipt; send a request that a limit with count charges")
	}
	runs := s.await(ctx, count.sinceRun, lambdaMetrics, "Invocations", ofFunction(f))
	failed, lost := s.count(ctx, lambdaMetrics, "Errors", ofFunction(f)), s.count(ctx, s.namespace(), telemetry.SettlementsLost)
	o := verdict("lines with a receipt that the function settles", fmt.Sprintf("%.0f invocations", runs.now), problem(runs.now == 0 || failed.now+lost.now > 0,
		"%s: %.0f invocations, %.0f of them failed; %.0f settlements lost", f.ID, runs.now, failed.now, lost.now))
	o.Warning = lost.warning("lost settlements")
	return o
}

// settling returns the function Log that has the counters.
func (s *Stack) settling() (Resource, bool) {
	for _, r := range s.weirFunctions() {
		if v := variables(r); v[contract.VariableFunction] == contract.Log && v[contract.VariableStore] != contract.StoreMemory {
			return r, true
		}
	}
	return Resource{}, false
}

func (s *Stack) filtered(r Resource) (names []string) {
	written, _ := r.Properties["MetricTransformations"].([]any)
	for _, each := range written {
		names = append(names, s.value(verify.At(each, "MetricName")))
	}
	return names
}

func (s *Stack) authorizerMetric(ctx context.Context) verify.Observation {
	for _, r := range s.of(metricFilterType) {
		if !strings.Contains(fmt.Sprint(r.Properties["FilterPattern"]), "AUTHORIZER") {
			continue
		}
		names := strings.Join(s.filtered(r), ", ") // one name
		c := s.await(ctx, count.sinceRun, s.namespace(), names)
		return verdict("the metric "+names, fmt.Sprintf("%s = %.0f", names, c.now), problem(c.now == 0, "no data of the metric %s", names))
	}
	return skipped("the stack has no metric filter of failed authorizers")
}
