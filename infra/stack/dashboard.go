package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Prices per million requests of a REST API and of an HTTP API in us-east-1, in dollars, without
// free tiers, as of November 2026.
const (
	restRequests = 3.5
	httpRequests = 1
	edgeRequests = 1.16 // an HTTPS request to a distribution in the United States or Europe, its viewer function, and two reads of the list
)

func (s *stage) newDashboard() {
	d := ratelimit.Dashboard{
		Errors:    []awscloudwatch.IMetric{ratelimit.RESTErrors(s.rest.RestApiName()), s.httpErrors()},
		Functions: []awslambda.IFunction{s.handler},
		Costs:     []ratelimit.Cost{{Name: "rest", Units: requests(s.restName()), Million: restRequests}, {Name: "http", Units: requests(s.httpName()), Million: httpRequests}},
	}
	if s.settings.CloudFront {
		for _, each := range []struct {
			name  string
			front awscloudfront.Distribution
		}{{"restEdge", s.restFront}, {"httpEdge", s.httpFront}} {
			d.Distributions = append(d.Distributions, each.front)
			d.Costs = append(d.Costs, ratelimit.Cost{Name: each.name, Units: ratelimit.DistributionMetric(each.front, "Requests", "Sum"), Million: edgeRequests})
		}
	}
	s.dashboard = s.limits.NewDashboard(s.stack, d)
}
