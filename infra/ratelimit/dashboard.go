package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// NewDashboard creates a dashboard that begins with availability and the callers that the functions so far refused. It
// returns the dashboard's name. The name contains the region, because names are unique in an
// account across regions. errors are metrics of APIs' failed answers in percent.
func (l *Limits) NewDashboard(scope awscdk.Stack, errors ...awscloudwatch.IMetric) (name *string) {
	var environments []awscloudwatch.IMetric
	for _, f := range l.equipped {
		environments = append(environments, LambdaMetric(f, "ConcurrentExecutions", "Maximum"))
	}
	m := l.metrics
	name = jsii.Sprintf("weir-%s-%s", l.props.Namespace, *scope.Region())
	d := awscloudwatch.NewDashboard(scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: name})
	d.AddWidgets(
		graph("Is it up? Requests, and % degraded or failed", m.sums(telemetry.Allowed, telemetry.Refused, telemetry.Failed, telemetry.LocalFull),
			append([]awscloudwatch.IMetric{m.Degraded()}, errors...)...),
		awscloudwatch.NewLogQueryWidget(&awscloudwatch.LogQueryWidgetProps{
			Title: jsii.String("Who is refused? The top ten callers and limits"), LogGroupNames: &l.logs,
			QueryString: jsii.String(whoIsLimited + "10"),
			Width:       jsii.Number(8), Height: jsii.Number(6),
		}),
		graph("Refusals, and % of requests", m.sums(telemetry.Refused, telemetry.FromCache, telemetry.Busy, telemetry.Shadowed,
			telemetry.Unauthorized), m.Refused()),
	)
	d.AddWidgets(
		graph("Milliseconds per decision, total and in the store", []awscloudwatch.IMetric{
			m.Metric(telemetry.Latency, "p50"), m.Metric(telemetry.Latency, "p99"), m.Metric(telemetry.StoreLatency, "p50"),
			m.Metric(telemetry.StoreLatency, "p99"),
		}),
		graph("Store calls, and environments of the functions", m.sums(telemetry.StoreCalls), environments...),
		graph("Which rules refuse, or would? % of all requests", []awscloudwatch.IMetric{m.ByRule("refused by", telemetry.RuleRefused),
			m.ByRule("shadow:", telemetry.RuleShadowed)}),
	)
	d.AddWidgets(
		graph("What is not exact? Overshoot, refunds, clamped and evicted states", m.sums(telemetry.RefundsGiven, telemetry.RefundsDropped,
			telemetry.Clamped, telemetry.Evicted), m.Metric(telemetry.Overshoot, "Maximum")),
		graph("Rules: oldest and newest version in force, and seconds since they were confirmed",
			[]awscloudwatch.IMetric{m.Metric(telemetry.RulesVersion, "Minimum"), m.Metric(telemetry.RulesVersion, "Maximum")},
			m.Metric(telemetry.RulesAge, "Minimum"), m.Metric(telemetry.RulesAge, "Maximum")),
	)
	if l.props.Regions != nil {
		d.AddWidgets(graph("Share between regions: calls, calls without an answer, and messages whose share is lost",
			m.sums(telemetry.RegionCalls, telemetry.RegionsFailed, telemetry.TransfersLost)))
	}
	return name
}

func graph(title string, left []awscloudwatch.IMetric, right ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	p := &awscloudwatch.GraphWidgetProps{Title: jsii.String(title), Left: &left, Width: jsii.Number(8), Height: jsii.Number(6)}
	if len(right) > 0 {
		p.Right = &right
	}
	return awscloudwatch.NewGraphWidget(p)
}

func (m Metrics) sums(names ...string) []awscloudwatch.IMetric {
	all := make([]awscloudwatch.IMetric, len(names))
	for i, name := range names {
		all[i] = m.Metric(name, "Sum")
	}
	return all
}
