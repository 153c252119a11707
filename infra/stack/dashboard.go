package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// These are prices of a million requests of a REST and of an HTTP API in us-east-1, in dollars, without free
// tiers, as known in November 2026.
const (
	restRequests = 3.5
	httpRequests = 1
)

// newDashboard makes the dashboard of the limits and the APIs.
func (s *stage) newDashboard() {
	s.dashboard = s.limits.NewDashboard(s.stack, ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{s.restErrors(), s.httpErrors()},
		Functions: []awslambda.IFunction{s.handler},
		Costs:     []ratelimit.Cost{{Name: "rest", Units: requests(s.restName()), Million: restRequests}, {Name: "http", Units: requests(s.httpName()), Million: httpRequests}},
	})
}
