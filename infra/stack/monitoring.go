package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Prices per million requests of a REST API and of an HTTP API in us-east-1, in dollars, without
// free tiers, as of November 2026.
const (
	restRequests = 3.5
	httpRequests = 1
)

func (s *stage) newDashboard() {
	d := ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{ratelimit.RESTErrors(s.rest.RestApiName()), s.httpErrors()},
		Functions: []awslambda.IFunction{s.handler},
		Costs: []ratelimit.Cost{{Name: "rest", Units: requests(s.restName()), Million: restRequests},
			{Name: "http", Units: requests(s.httpName()), Million: httpRequests}},
	}
	s.dashboard = s.limits.NewDashboard(s.stack, d)
}

// newHTTPAlarm adds the alarm on the HTTP API, which the construct does not know.
func (s *stage) newHTTPAlarm() {
	s.limits.NewAlarm(s.stack, ratelimit.Alarm{
		Name: "http-errors", Description: "More than 1 % of the HTTP API's answers are 5xx. Look at handler-errors and handler-throttled, " +
			"then at the handler's log.", Metric: s.httpErrors(), Above: 1, Of: 3, In: 5,
	})
}

// restName and httpName return the CloudWatch dimensions of the two APIs.
func (s *stage) restName() map[string]*string {
	return map[string]*string{"ApiName": s.rest.RestApiName(), "Stage": s.rest.DeploymentStage().StageName()}
}

func (s *stage) httpName() map[string]*string { return map[string]*string{"ApiId": s.http.ApiId()} }

// httpErrors returns the 5xx answers of the HTTP API in percent of its answers.
func (s *stage) httpErrors() awscloudwatch.IMetric {
	return ratelimit.Percent("HTTP errors, %", "100 * httpErrors / httpRequests", map[string]awscloudwatch.IMetric{
		"httpErrors": gateway("5xx", s.httpName()), "httpRequests": requests(s.httpName()),
	})
}

func requests(dimensions map[string]*string) awscloudwatch.IMetric {
	return gateway("Count", dimensions)
}

func gateway(name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return ratelimit.Metric("AWS/ApiGateway", name, "Sum", dimensions)
}
