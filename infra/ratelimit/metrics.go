package ratelimit

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Metrics are the metrics that the functions write. limiter/telemetry documents them.
// [Limits.Metrics] returns them.
type Metrics struct{ namespace string }

func newMetrics(namespace string) Metrics { return Metrics{contract.MetricNamespace(namespace)} }

// Metric returns the metric with a name, such as functions/contract.MetricAllowed. statistic is a
// statistic of CloudWatch, such as Sum or p99.
func (m Metrics) Metric(name, statistic string) awscloudwatch.IMetric {
	return Metric(m.namespace, name, statistic, nil)
}

// Metric returns a metric with a period of one minute.
func Metric(namespace, name, statistic string, dimensions map[string]*string) awscloudwatch.IMetric {
	p := &awscloudwatch.MetricProps{
		Namespace: jsii.String(namespace), MetricName: jsii.String(name), Statistic: jsii.String(statistic),
		Period: awscdk.Duration_Minutes(jsii.Number(1)),
	}
	if dimensions != nil {
		p.DimensionsMap = &dimensions
	}
	return awscloudwatch.NewMetric(p)
}

// Percent returns a metric with a period of one minute. expression is CloudWatch metric math over the
// names in using.
func Percent(label, expression string, using map[string]awscloudwatch.IMetric) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Label: jsii.String(label), Expression: jsii.String(expression), UsingMetrics: &using, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

// Refused returns the share of refused requests, in percent.
func (m Metrics) Refused() awscloudwatch.IMetric {
	return Percent("Refused, %", "100 * refused / (allowed + refused)", map[string]awscloudwatch.IMetric{
		"allowed": m.Metric(contract.MetricAllowed, "Sum"), "refused": m.Metric(contract.MetricRefused, "Sum"),
	})
}

// Degraded returns the share of requests for which at least one answer of the store was missing. The
// share is in percent.
func (m Metrics) Degraded() awscloudwatch.IMetric {
	return Percent("Degraded, %", "100 * degraded / (allowed + refused + FILL(unauthorized, 0) + FILL(failed, 0))", map[string]awscloudwatch.IMetric{
		"allowed": m.Metric(contract.MetricAllowed, "Sum"), "refused": m.Metric(contract.MetricRefused, "Sum"), "unauthorized": m.Metric(contract.MetricUnauthorized, "Sum"),
		"failed": m.Metric(contract.MetricFailed, "Sum"), "degraded": m.Metric(contract.MetricDegraded, "Sum"),
	})
}

// ByRule returns, for each rule, a metric as a percentage of the rule's allowed and refused requests. The
// graph has one line for each rule with values.
func (m Metrics) ByRule(label, name string) awscloudwatch.IMetric {
	search := fmt.Sprintf(`SEARCH('{"%s","%s"} MetricName="%s"', 'Sum')`, m.namespace, contract.RuleDimension, name)
	return Percent(label, "100 * "+search+" / (allowed + refused)", map[string]awscloudwatch.IMetric{
		"allowed": m.Metric(contract.MetricAllowed, "Sum"), "refused": m.Metric(contract.MetricRefused, "Sum"),
	})
}
