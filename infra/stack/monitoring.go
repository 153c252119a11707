package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/weir-limits/weir/infra/ratelimit"
)

func (s *stage) newDashboard() {
	d := ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{ratelimit.RESTErrors(s.rest.RestApiName()), s.httpErrors()},
		Functions: []awslambda.IFunction{s.handler},
	}
	s.dashboard = s.limits.NewDashboard(s.stack, d)
}

// newHTTPAlarm adds the alarm on the HTTP API, which the construct does not know.
func (s *stage) newHTTPAlarm() {
	s.limits.NewAlarm(s.stack, ratelimit.Alarm{
		Name: "http-errors", Description: "More than 1 % of the HTTP API's answers are 5xx. Look at handler-errors and handler-throttled, " +
			"then at the handler's log.", Metric: ratelimit.Enough(s.httpErrors(), "httpRequests"), Above: 1, Of: 3, In: 5,
	})
}

// httpName returns the CloudWatch dimensions of the HTTP API.
func (s *stage) httpName() map[string]*string { return map[string]*string{"ApiId": s.http.ApiId()} }

// httpErrors returns the 5xx answers of the HTTP API in percent of its answers.
func (s *stage) httpErrors() awscloudwatch.IMetric {
	return ratelimit.Percent("HTTP errors, %", "100 * httpErrors / httpRequests", map[string]awscloudwatch.IMetric{
		"httpErrors": gateway("5xx", s.httpName()), "httpRequests": gateway("Count", s.httpName()),
	})
}

func gateway(name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return ratelimit.Metric("AWS/ApiGateway", name, "Sum", dimensions)
}
