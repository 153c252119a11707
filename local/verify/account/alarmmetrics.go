package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
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
func (s *Stack) alarmMetrics(ctx context.Context) (verify.Observation, error) {
	alarms, err := s.alarms(ctx)
	if err != nil {
		return verify.Observation{}, err
	}
	requests, err := s.recent(ctx, s.namespace(), telemetry.Allowed)
	if err != nil {
		return verify.Observation{}, err
	}
	if len(requests) == 0 {
		return skipped("no request was decided in the last hour, and a metric exists only after its first data"), nil
	}
	watched := watchedBy(alarms)
	var problems, unseen []string
	for range metricReads {
		if problems, unseen, err = s.unlisted(ctx, watched); err != nil || len(problems) == 0 {
			break
		}
		if err = s.Wait(ctx, 15*time.Second); err != nil {
			break
		}
	}
	switch {
	case err != nil:
		return verify.Observation{}, err
	case len(problems) > 0 && time.Since(aws.ToTime(requests[0].Timestamp)) < settled:
		return skipped("CloudWatch lists a metric up to 15 minutes after its first data; run again later: " + strings.Join(problems, "; ")), nil
	}
	o := verdict("each metric of an alarm", fmt.Sprintf("the metrics of %d alarms", len(alarms)), problems)
	if o.Outcome == verify.Pass && len(unseen) > 0 {
		o.Warning = "without data until now: " + strings.Join(unseen, "; ")
	}
	return o, nil
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
func (s *Stack) unlisted(ctx context.Context, watched map[string]source) (problems, unseen []string, err error) {
	listed, served := map[string][]string{}, map[bool]bool{} // served are the kinds of APIs with metrics
	for key, o := range watched {
		if listed[key], err = s.list(ctx, o); err != nil {
			return nil, nil, err
		}
		served[o.http()] = served[o.http()] || o.namespace == apiMetrics && len(listed[key]) > 0
	}
	for _, key := range sorted(watched) {
		o, why := watched[key], ""
		missing := slices.DeleteFunc(slices.Clone(o.names), func(name string) bool { return slices.Contains(listed[key], name) })
		none := len(listed[key]) == 0
		if none {
			if why, err = s.misnamed(ctx, o, served[o.http()]); err != nil {
				return nil, nil, err
			}
		}
		bad := len(problems)
		for _, name := range missing {
			if why != "" || none && !o.mayBeIdle(name) || !none && !s.occasional(o.namespace, name) {
				problems = append(problems, fmt.Sprintf("no metric %s in %s%s", name, o, why))
			}
		}
		if len(missing) > 0 && len(problems) == bad {
			slices.Sort(missing)
			unseen = append(unseen, strings.Join(missing, ", ")+" in "+o.String())
		}
	}
	return problems, unseen, nil
}

// misnamed returns why a source that CloudWatch does not list has a wrong dimension, or "". served reports that another
// API of its kind has metrics; this one may then have had no request.
func (s *Stack) misnamed(ctx context.Context, o source, served bool) (why string, err error) {
	if why, err = s.otherDimensions(ctx, o); why != "" || err != nil {
		return why, err
	}
	switch o.namespace {
	case lambdaMetrics:
		if !slices.ContainsFunc(s.of(functionType), func(r Resource) bool {
			return slices.ContainsFunc(o.dimensions, func(d types.Dimension) bool { return aws.ToString(d.Value) == r.Physical })
		}) {
			return ", and the stack has no such function", nil
		}
	case apiMetrics:
		if exists, err := s.namesREST(ctx, o); err != nil || !exists {
			return ", and the account has no REST API of this name", err
		}
		if served || !map[bool]bool{false: s.REST, true: s.HTTP}[o.http()] {
			return "", nil
		}
		// CloudWatch returns data before it lists their metric.
		points, err := s.recent(ctx, o.namespace, "Count", o.dimensions...)
		if err == nil && len(points) == 0 {
			why = ", although the run sent requests to an API of this kind"
		}
		return why, err
	}
	return "", nil
}

// namesREST reports whether a REST API of the account has the name in a source. It is true for a source of an HTTP API.
func (s *Stack) namesREST(ctx context.Context, o source) (bool, error) {
	if o.http() {
		return true, nil
	}
	for pages := apigateway.NewGetRestApisPaginator(s.apis, &apigateway.GetRestApisInput{Limit: aws.Int32(500)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, api := range page.Items {
			if slices.ContainsFunc(o.dimensions, func(d types.Dimension) bool { return aws.ToString(d.Value) == aws.ToString(api.Name) }) {
				return true, nil
			}
		}
	}
	return false, nil
}

// occasional reports whether a metric may be missing although others with its dimensions exist.
func (s *Stack) occasional(namespace, name string) bool {
	if namespace != s.namespace() {
		return slices.Contains(occasional[namespace], name)
	}
	return slices.Contains(telemetry.Metrics(), name) || slices.ContainsFunc(s.of(metricFilterType), func(r Resource) bool { return slices.Contains(s.filtered(r), name) })
}

// list returns the names of the metrics that have the namespace and exactly the dimensions of a source.
func (s *Stack) list(ctx context.Context, o source) (listed []string, err error) {
	in := &cloudwatch.ListMetricsInput{Namespace: &o.namespace}
	for _, d := range o.dimensions {
		in.Dimensions = append(in.Dimensions, types.DimensionFilter{Name: d.Name, Value: d.Value})
	}
	err = s.eachMetric(ctx, in, func(m types.Metric) {
		if dimensions(m.Dimensions) == dimensions(o.dimensions) {
			listed = append(listed, aws.ToString(m.MetricName))
		}
	})
	return listed, err
}

// otherDimensions describes the dimensions in the namespace of a source that have one of its values under another name.
func (s *Stack) otherDimensions(ctx context.Context, o source) (text string, err error) {
	var others []string
	err = s.eachMetric(ctx, &cloudwatch.ListMetricsInput{Namespace: &o.namespace}, func(m types.Metric) {
		for _, d := range m.Dimensions {
			other := func(own types.Dimension) bool {
				named := slices.ContainsFunc(m.Dimensions, func(d types.Dimension) bool { return aws.ToString(d.Name) == aws.ToString(own.Name) })
				return aws.ToString(own.Value) == aws.ToString(d.Value) && !named
			}
			if name := aws.ToString(d.Name); slices.ContainsFunc(o.dimensions, other) && !slices.Contains(others, name) {
				others = append(others, name)
			}
		}
	})
	if len(others) > 0 {
		text = "; the dimension there is " + strings.Join(others, " or ")
	}
	return text, err
}

func (s *Stack) eachMetric(ctx context.Context, in *cloudwatch.ListMetricsInput, visit func(types.Metric)) error {
	for pages := cloudwatch.NewListMetricsPaginator(s.watch, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, m := range page.Metrics {
			visit(m)
		}
	}
	return nil
}
