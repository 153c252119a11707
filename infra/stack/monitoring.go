package stack

import (
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

func (s *stage) newAlarms() {
	for _, a := range []ratelimit.Alarm{
		{Name: "authorizer-failed", Description: "API Gateway got no answer from the authorizer and answered 503. The cause is a crash, a timeout or throttling. Look at authorizer-throttled, then at the authorizer's log. Bad credentials get 401 and do not count.", Metric: s.authorizerFailed(), Above: 0, Of: 2, In: 5},
		{Name: "rest-5xx", Description: "More than 1 % of the REST API's answers are 5xx. Look at authorizer-failed, then at the handler's log.", Metric: s.restErrors(), Above: 1, Of: 3, In: 5},
		{Name: "http-5xx", Description: "More than 1 % of the HTTP API's answers are 5xx. Look at the handler's log.", Metric: s.httpErrors(), Above: 1, Of: 3, In: 5},
	} {
		s.limits.NewAlarm(s.stack, a)
	}
}

// authorizerFailed counts the answers that API Gateway sends because the authorizer failed.
// Lambda's metric Errors would also count bad credentials, with which anyone could raise the alarm.
func (s *stage) authorizerFailed() awscloudwatch.IMetric {
	const name = "AuthorizerFailed"
	logs := s.stack.Node().FindChild(jsii.String("RestAccess")).(awslogs.LogGroup)
	filter := awslogs.NewMetricFilter(s.stack, jsii.String(name), &awslogs.MetricFilterProps{
		LogGroup:        logs,
		FilterPattern:   awslogs.FilterPattern_StringValue(jsii.String("$."+responseTypeField), jsii.String("="), jsii.String("AUTHORIZER_*")),
		MetricNamespace: jsii.String("Weir/" + s.settings.Stage), MetricName: jsii.String(name), MetricValue: jsii.String("1"),
	})
	return filter.Metric(&awscloudwatch.MetricOptions{Statistic: jsii.String("Sum"), Period: minute()})
}

// restName and httpName return the CloudWatch dimensions of the two APIs.
func (s *stage) restName() map[string]*string {
	return map[string]*string{"ApiName": s.rest.RestApiName(), "Stage": s.rest.DeploymentStage().StageName()}
}

func (s *stage) httpName() map[string]*string { return map[string]*string{"ApiId": s.http.ApiId()} }

func (s *stage) restErrors() awscloudwatch.IMetric {
	return failing("rest", "5XXError", s.restName())
}
func (s *stage) httpErrors() awscloudwatch.IMetric {
	return failing("http", "5xx", s.httpName())
}

// failing returns the 5xx answers in percent of an API's answers.
func failing(api, name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return ratelimit.Percent(strings.ToUpper(api)+" errors, %", fmt.Sprintf("100 * %[1]sErrors / %[1]sRequests", api), map[string]awscloudwatch.IMetric{
		api + "Errors": gateway(name, dimensions), api + "Requests": requests(dimensions),
	})
}

func requests(dimensions map[string]*string) awscloudwatch.IMetric {
	return gateway("Count", dimensions)
}

func gateway(name string, dimensions map[string]*string) awscloudwatch.IMetric {
	return ratelimit.Metric("AWS/ApiGateway", name, "Sum", dimensions)
}

func minute() awscdk.Duration { return awscdk.Duration_Minutes(jsii.Number(1)) }
