package ratelimit

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// Metrics creates CloudWatch metrics that the functions write; limiter/telemetry documents them.
// [Limits.Metrics] returns a Metrics.
type Metrics struct{ namespace string }

func newMetrics(namespace string) Metrics { return Metrics{telemetry.Namespace(namespace)} }

// Metric returns the metric with this name, such as telemetry.Allowed. statistic is one of
// CloudWatch's, such as Sum or p99.
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

// Percent returns a metric in percent with a period of one minute. expression is metric math over
// the names in using.
func Percent(label, expression string, using map[string]awscloudwatch.IMetric) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Label: jsii.String(label), Expression: jsii.String(expression), UsingMetrics: &using, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

// percent returns the metric of an expression over sums of metrics of the functions. In the expression, their names are in
// lower case.
func (m Metrics) percent(label, expression string, names ...string) awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{}
	for _, name := range names {
		using[strings.ToLower(name)] = m.Metric(name, "Sum")
	}
	return Percent(label, expression, using)
}

// These expressions count requests.
const (
	decided = "allowed + refused"
	all     = decided + " + FILL(unauthorized, 0) + FILL(failed, 0)"
)

// Refused returns the refused requests in percent of all requests.
func (m Metrics) Refused() awscloudwatch.IMetric {
	return m.percent("Refused, %", "100 * refused / ("+decided+")", telemetry.Allowed, telemetry.Refused)
}

// Degraded returns the degraded requests in percent of all requests. A request is degraded if the store
// gave no answer for at least one of its limits. A busy subject does not count.
func (m Metrics) Degraded() awscloudwatch.IMetric {
	return m.percent("Degraded, %", "100 * degraded / ("+all+")",
		telemetry.Allowed, telemetry.Refused, telemetry.Unauthorized, telemetry.Failed, telemetry.Degraded)
}

// Unmatched returns the requests that no rule matches, in percent of all requests.
func (m Metrics) Unmatched() awscloudwatch.IMetric {
	return m.percent("Unmatched, %", "100 * unmatched / ("+decided+")", telemetry.Allowed, telemetry.Refused, telemetry.Unmatched)
}

// APIErrors returns the 5xx answers of an API in percent of its answers, restRequests or httpRequests. A REST API is known by its
// name, and an HTTP API by its id.
func APIErrors(kind string, api *string) awscloudwatch.IMetric {
	errors, dimension := "5XXError", "ApiName"
	if kind == "HTTP" {
		errors, dimension = "5xx", "ApiId"
	}
	id, of := strings.ToLower(kind), map[string]*string{dimension: api}
	return Percent(kind+" errors, %", fmt.Sprintf("100 * %[1]sErrors / %[1]sRequests", id), map[string]awscloudwatch.IMetric{
		id + "Errors": Metric("AWS/ApiGateway", errors, "Sum", of), id + "Requests": Metric("AWS/ApiGateway", "Count", "Sum", of),
	})
}

// ByRule returns the metric with the given name for each rule, in percent of the rule's decided requests.
// A graph shows one line for each rule with data.
func (m Metrics) ByRule(label, name string) awscloudwatch.IMetric {
	search := fmt.Sprintf(`SEARCH('{"%s","%s"} MetricName="%s"', 'Sum')`, m.namespace, telemetry.RuleDimension, name)
	return m.percent(label, "100 * "+search+" / (allowed + refused)", telemetry.Allowed, telemetry.Refused)
}
