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
	s.dashboard = s.limits.NewDashboard(s.stack, ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{ratelimit.RESTErrors(s.rest.RestApiName()), s.httpErrors()},
		Functions: []awslambda.IFunction{s.handler},
		Costs:     []ratelimit.Cost{{Name: "rest", Units: requests(s.restName()), Million: restRequests}, {Name: "http", Units: requests(s.httpName()), Million: httpRequests}},
	})
}
