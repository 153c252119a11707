package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	rest "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/verify"
)

// source is a namespace of CloudWatch with dimensions, and the names of metrics in it.
type source struct {
	namespace  string
	dimensions []types.Dimension
	names      []string
}

func (o source) String() string {
	if len(o.dimensions) == 0 {
		return o.namespace
	}
	return o.namespace + " with " + dimensions(o.dimensions)
}

// dimensions returns dimensions as text, sorted.
func dimensions(all []types.Dimension) string {
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = aws.ToString(d.Name) + "=" + aws.ToString(d.Value)
	}
	slices.Sort(texts)
	return strings.Join(texts, ", ")
}

// occasional are metrics that AWS may write only when something happens.
var occasional = map[string][]string{
	"AWS/ApiGateway":  {"5XXError", "5xx"},
	"AWS/DynamoDB":    {"WriteThrottleEvents"},
	"AWS/ElastiCache": {"ThrottledCmds", "Evictions", "AuthenticationFailures", "IamAuthenticationThrottling", "CommandAuthorizationFailures"},
}

// idle are the namespaces of functions, APIs and distributions. Some of them may have had no request.
var idle = []string{lambdaMetrics, apiMetrics, "AWS/CloudFront"}

const (
	lambdaMetrics = "AWS/Lambda"
	apiMetrics    = "AWS/ApiGateway"
)

// http reports whether o is a source of an HTTP API. The name identifies a REST API.
func (o source) http() bool {
	return slices.ContainsFunc(o.dimensions, func(d types.Dimension) bool { return aws.ToString(d.Name) == "ApiId" })
}

// mayBeIdle reports whether a metric may have had no data with the dimensions of o. An authorizer may have had no bad
// credential.
func (o source) mayBeIdle(name string) bool {
	rejected := name == telemetry.Unauthorized && len(o.dimensions) == 1 && aws.ToString(o.dimensions[0].Name) == telemetry.FunctionDimension
	return rejected || slices.Contains(idle, o.namespace)
}

// alarmMetrics tests that CloudWatch lists the metrics of the alarms. It lists a metric only after its first data.
func (s *Stack) alarmMetrics(ctx context.Context) verify.Observation {
	alarms, requests := s.alarms(ctx), s.count(ctx, s.namespace(), telemetry.Allowed)
	if requests.first.IsZero() {
		return skipped("no request was decided in the last hour, and a metric exists only after its first data")
	}
	watched := watchedBy(alarms)
	var problems, unseen []string
	for range metricReads {
		if problems, unseen = s.unlisted(ctx, watched); len(problems) == 0 || !s.pause(ctx, 15*time.Second) {
			break
		}
	}
	if len(problems) > 0 && time.Since(requests.first) < settled {
		return skipped("CloudWatch lists a metric up to 15 minutes after its first data; run again later: " + strings.Join(problems, "; "))
	}
	o := verdict("each metric of an alarm", fmt.Sprintf("the metrics of %d alarms", len(alarms)), problems)
	if o.Outcome == verify.Pass && len(unseen) > 0 {
		o.Warning = "without data until now: " + strings.Join(unseen, "; ")
	}
	return o
}

func watchedBy(alarms map[string]types.MetricAlarm) map[string]source {
	watched := map[string]source{}
	add := func(namespace, name *string, of []types.Dimension) {
		o := source{namespace: aws.ToString(namespace), dimensions: of}
		o.names = watched[o.String()].names
		if !slices.Contains(o.names, aws.ToString(name)) {
			o.names = append(o.names, aws.ToString(name))
		}
		watched[o.String()] = o
	}
	for _, id := range sorted(alarms) {
		a := alarms[id]
		if a.MetricName != nil {
			add(a.Namespace, a.MetricName, a.Dimensions)
		}
		for _, q := range a.Metrics {
			if q.MetricStat != nil {
				add(q.MetricStat.Metric.Namespace, q.MetricStat.Metric.MetricName, q.MetricStat.Metric.Dimensions)
			}
		}
	}
	return watched
}

// unlisted returns problems with metrics that CloudWatch does not list, and a text for each source of metrics that may
// have had no data.
func (s *Stack) unlisted(ctx context.Context, watched map[string]source) (problems, unseen []string) {
	listed, served := map[string][]string{}, map[bool]bool{} // served are the kinds of APIs with metrics
	for key, o := range watched {
		listed[key] = s.list(ctx, o)
		served[o.http()] = served[o.http()] || o.namespace == apiMetrics && len(listed[key]) > 0
	}
	for _, key := range sorted(watched) {
		o, why := watched[key], ""
		missing := slices.DeleteFunc(slices.Clone(o.names), func(name string) bool { return slices.Contains(listed[key], name) })
		none := len(listed[key]) == 0
		if none {
			why = s.misnamed(ctx, o, served[o.http()])
		}
		bad := len(problems)
		for _, name := range missing {
			problems = append(problems, problem(why != "" || none && !o.mayBeIdle(name) || !none && !s.occasional(o.namespace, name), "no metric %s in %s%s", name, o, why)...)
		}
		if len(missing) > 0 && len(problems) == bad {
			slices.Sort(missing)
			unseen = append(unseen, strings.Join(missing, ", ")+" in "+o.String())
		}
	}
	return problems, unseen
}

func (o source) has(value string) bool {
	return slices.ContainsFunc(o.dimensions, func(d types.Dimension) bool { return aws.ToString(d.Value) == value })
}

// misnamed returns why a source that CloudWatch does not list has a wrong dimension, or "". served reports that another
// API of its kind has metrics; this one may then have had no request.
func (s *Stack) misnamed(ctx context.Context, o source, served bool) string {
	if others := s.otherDimensions(ctx, o); len(others) > 0 {
		return "; the dimension there is " + strings.Join(others, " or ")
	}
	switch {
	case o.namespace == lambdaMetrics && !slices.ContainsFunc(s.of(functionType), func(r Resource) bool { return o.has(r.Physical) }):
		return ", and the stack has no such function"
	case o.namespace == apiMetrics && !o.http() && !s.namesREST(ctx, o):
		return ", and the account has no REST API of this name"
	case o.namespace == apiMetrics && !served && map[bool]bool{false: s.REST, true: s.HTTP}[o.http()] &&
		s.count(ctx, o.namespace, "Count", o.dimensions...).first.IsZero(): // CloudWatch returns data before it lists their metric
		return ", although the run sent requests to an API of this kind"
	}
	return ""
}

// namesREST reports whether a REST API of the account has the name in a source.
func (s *Stack) namesREST(ctx context.Context, o source) bool {
	for pages := apigateway.NewGetRestApisPaginator(s.apis, &apigateway.GetRestApisInput{Limit: aws.Int32(500)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if !s.keep(err) {
			return false
		}
		if slices.ContainsFunc(page.Items, func(api rest.RestApi) bool { return o.has(aws.ToString(api.Name)) }) {
			return true
		}
	}
	return false
}

// occasional reports whether a metric may be missing although others with its dimensions exist.
func (s *Stack) occasional(namespace, name string) bool {
	if namespace != s.namespace() {
		return slices.Contains(occasional[namespace], name)
	}
	return slices.Contains(telemetry.Metrics(), name) || slices.ContainsFunc(s.of(metricFilterType), func(r Resource) bool { return slices.Contains(s.filtered(r), name) })
}

// list returns the names of the metrics that have the namespace and exactly the dimensions of a source.
func (s *Stack) list(ctx context.Context, o source) (listed []string) {
	for _, m := range s.metrics(ctx, o.namespace, o.dimensions) {
		if dimensions(m.Dimensions) == dimensions(o.dimensions) {
			listed = append(listed, aws.ToString(m.MetricName))
		}
	}
	return listed
}

// otherDimensions returns the dimensions in the namespace of a source that have one of its values under another name.
func (s *Stack) otherDimensions(ctx context.Context, o source) (others []string) {
	for _, m := range s.metrics(ctx, o.namespace, nil) {
		for _, d := range m.Dimensions {
			other := func(own types.Dimension) bool {
				named := slices.ContainsFunc(m.Dimensions, func(d types.Dimension) bool { return aws.ToString(d.Name) == aws.ToString(own.Name) })
				return aws.ToString(own.Value) == aws.ToString(d.Value) && !named
			}
			if name := aws.ToString(d.Name); slices.ContainsFunc(o.dimensions, other) && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	}
	return others
}

func (s *Stack) metrics(ctx context.Context, namespace string, with []types.Dimension) (all []types.Metric) {
	in := &cloudwatch.ListMetricsInput{Namespace: &namespace}
	for _, d := range with {
		in.Dimensions = append(in.Dimensions, types.DimensionFilter{Name: d.Name, Value: d.Value})
	}
	for pages := cloudwatch.NewListMetricsPaginator(s.watch, in); s.err == nil && pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if !s.keep(err) {
			return nil
		}
		all = append(all, page.Metrics...)
	}
	return all
}
