package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// Dashboard names the APIs and functions that a dashboard shows together with the limits.
type Dashboard struct {
	// Errors are metrics of failed answers in percent.
	Errors []awscloudwatch.IMetric
	// Functions are functions that [Limits.NewFunction] created.
	Functions []awslambda.IFunction
}

// NewDashboard creates a dashboard that begins with availability and the callers that the functions so far refused. It
// returns the dashboard's name. The name contains the region, because names are unique in an
// account across regions.
func (l *Limits) NewDashboard(scope awscdk.Stack, p Dashboard) (name *string) {
	m, functions := l.metrics, append([]awslambda.IFunction{l.authorizer}, p.Functions...)
	name = jsii.Sprintf("weir-%s-%s", l.props.Namespace, *scope.Region())
	d := awscloudwatch.NewDashboard(scope, jsii.String("Dashboard"), &awscloudwatch.DashboardProps{DashboardName: name})
	d.AddWidgets(
		graph("Is it up? Requests, and % degraded or failed", m.sums(telemetry.Allowed, telemetry.Refused, telemetry.Failed, telemetry.LocalFull),
			append([]awscloudwatch.IMetric{m.Degraded()}, p.Errors...)...),
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
		graph("Store calls, and environments of the functions", m.sums(telemetry.StoreCalls), each(functions, "ConcurrentExecutions",
			"Maximum")...),
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

// each returns one metric of each function. name is the name of the metric.
func each(functions []awslambda.IFunction, name, statistic string) []awscloudwatch.IMetric {
	all := make([]awscloudwatch.IMetric, len(functions))
	for i, f := range functions {
		all[i] = LambdaMetric(f, name, statistic)
	}
	return all
}
