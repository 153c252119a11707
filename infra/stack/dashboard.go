package stack

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// These are prices of a million units in us-east-1, in dollars, without free tiers, as known in
// November 2026. The units are requests of a REST and of an HTTP API, invocations, and GB-seconds on
// arm64.
const (
	restRequests = 3.5
	httpRequests = 1
	invocations  = 0.2
	gbSeconds    = 13.3334
)

// newDashboard makes the dashboard. Its first row shows availability, refused callers and
// cost.
func (s *stage) newDashboard() {
	m := s.limits.Metrics()
	d := awscloudwatch.NewDashboard(s.stack, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: s.dashboardName()})
	d.AddWidgets(
		graph("Is it up? Requests, and % degraded or failed", s.sums(contract.MetricAllowed, contract.MetricRefused, contract.MetricFailed, contract.MetricLocalFull), m.Degraded(), s.restErrors(), s.httpErrors()),
		&contributors{region: s.stack.Region(), rule: s.limits.RefusedMost()},
		graph("What does it cost? Dollars an hour", []awscloudwatch.IMetric{s.cost()}),
	)
	d.AddWidgets(
		graph("Refusals, and % of requests", s.sums(contract.MetricRefused, contract.MetricFromCache, contract.MetricBusy, contract.MetricShadowed, contract.MetricUnauthorized), m.Refused()),
		graph("Milliseconds per decision, total and in the store", []awscloudwatch.IMetric{
			m.Metric(contract.MetricLatency, "p50"), m.Metric(contract.MetricLatency, "p99"), m.Metric(contract.MetricStoreLatency, "p50"), m.Metric(contract.MetricStoreLatency, "p99"),
		}),
		graph("Store calls, and environments of the functions", s.sums(contract.MetricStoreCalls), ratelimit.LambdaMetric(s.limits.Authorizer(), "ConcurrentExecutions", "Maximum"), ratelimit.LambdaMetric(s.handler, "ConcurrentExecutions", "Maximum")),
	)
	d.AddWidgets(
		graph("Which rules refuse, or would? % of all requests", []awscloudwatch.IMetric{m.ByRule("refused by", contract.MetricRuleRefused), m.ByRule("shadow:", contract.MetricRuleShadowed)}),
		graph("What is not exact? Overshoot, refunds, clamped states, dropped events", s.sums(contract.MetricRefundsGiven, contract.MetricRefundsDropped, contract.MetricClamped, contract.MetricEventsDropped), m.Metric(contract.MetricOvershoot, "Maximum")),
		graph("Rules: oldest and newest version in force, and seconds since they were confirmed", []awscloudwatch.IMetric{m.Metric(contract.MetricRulesVersion, "Minimum"), m.Metric(contract.MetricRulesVersion, "Maximum")},
			m.Metric(contract.MetricRulesAge, "Minimum"), m.Metric(contract.MetricRulesAge, "Maximum")),
	)
}

// dashboardName contains the region, because the names of dashboards are unique in an account, across
// regions.
func (s *stage) dashboardName() *string {
	return jsii.Sprintf("weir-%s-%s", s.settings.Stage, *s.stack.Region())
}

func graph(title string, left []awscloudwatch.IMetric, right ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	p := &awscloudwatch.GraphWidgetProps{Title: jsii.String(title), Left: &left, Width: jsii.Number(8), Height: jsii.Number(6)}
	if len(right) > 0 {
		p.Right = &right
	}
	return awscloudwatch.NewGraphWidget(p)
}

func (s *stage) sums(names ...string) []awscloudwatch.IMetric {
	all := make([]awscloudwatch.IMetric, len(names))
	for i, name := range names {
		all[i] = s.limits.Metrics().Metric(name, "Sum")
	}
	return all
}

// cost returns the cost in dollars an hour: the cost of a minute's requests, times sixty.
func (s *stage) cost() awscloudwatch.IMetric {
	memory := ratelimit.Memory / 1024.0 / 1000
	unit, price := s.limits.StoreUnits()
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Label: jsii.String("$/h"), Period: minute(),
		Expression: jsii.String(fmt.Sprintf("60 / 1000000 * (FILL(rest, 0) * %.4f + FILL(http, 0) * %.4f + (FILL(authorizers, 0) + FILL(handlers, 0)) * %.4f + (FILL(authorizing, 0) + FILL(handling, 0)) * %.7f + FILL(units, 0) * %.4f)",
			restRequests, float64(httpRequests), invocations, memory*gbSeconds, price)),
		UsingMetrics: &map[string]awscloudwatch.IMetric{
			"rest": requests(s.restName()), "http": requests(s.httpName()),
			"authorizers": ratelimit.LambdaMetric(s.limits.Authorizer(), "Invocations", "Sum"), "handlers": ratelimit.LambdaMetric(s.handler, "Invocations", "Sum"),
			"authorizing": ratelimit.LambdaMetric(s.limits.Authorizer(), "Duration", "Sum"), "handling": ratelimit.LambdaMetric(s.handler, "Duration", "Sum"),
			"units": unit,
		},
	})
}

// contributors is a widget that shows the pairs of caller and limit with the most refused requests.
// Callers appear as hashes. The CDK has no widget for Contributor Insights. contributors implements
// awscloudwatch.IWidget.
type contributors struct {
	region, rule *string
	x, y         *float64
}

// Height implements awscloudwatch.IWidget.
func (c *contributors) Height() *float64 { return jsii.Number(6) }

// Width implements awscloudwatch.IWidget.
func (c *contributors) Width() *float64 { return jsii.Number(8) }

// Warnings implements awscloudwatch.IWidget.
func (c *contributors) Warnings() *[]*string { return nil }

// WarningsV2 implements awscloudwatch.IWidget.
func (c *contributors) WarningsV2() *map[string]*string { return nil }

// Position implements awscloudwatch.IWidget.
func (c *contributors) Position(x, y *float64) { c.x, c.y = x, y }

// ToJson implements awscloudwatch.IWidget.
func (c *contributors) ToJson() *[]any { //nolint:staticcheck // the interface has this name
	return &[]any{map[string]any{
		"type": "metric", "width": c.Width(), "height": c.Height(), "x": c.x, "y": c.y,
		"properties": map[string]any{
			"title": "Who is refused? The top ten callers and limits", "view": "timeSeries", "region": c.region, "period": 60,
			"insightRule": map[string]any{"ruleName": c.rule, "orderBy": "Sum", "maxContributorCount": 10},
		},
	}}
}
