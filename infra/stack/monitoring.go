package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// watch adds the alarm on the HTTP API, which the construct does not know, and the dashboard.
func (s *stage) watch() {
	failed := ratelimit.HTTPErrors(s.http.ApiId())
	s.limits.NewAlarm(s.stack, ratelimit.Alarm{
		Name: "http-errors", Description: "More than 1 % of the HTTP API's answers are 5xx. Look at handler-errors and handler-throttled, " +
			"then at the handler's log.", Metric: ratelimit.Enough(failed, "httpRequests"), Above: 1, Of: 3, In: 5,
	})
	s.dashboard = s.limits.NewDashboard(s.stack, ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{ratelimit.RESTErrors(s.rest.RestApiName()), failed},
		Functions: []awslambda.IFunction{s.handler},
	})
}
