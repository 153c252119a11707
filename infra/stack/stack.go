package stack

import (
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// handlerTimeout bounds a request of the sample API, including its wait in a leaky bucket.
const handlerTimeout = 10 * time.Second

type stage struct {
	stack    awscdk.Stack
	settings Settings

	alarms  awssns.Topic
	limits  *ratelimit.Limits
	handler awslambda.Function
	rest    awsapigateway.RestApi
	http    awsapigatewayv2.HttpApi
}

// New adds the stack of a stage to an app, or that of Settings.Region if Settings.Regions is set. It panics if the settings
// have mistakes; the error has one line for each.
func New(scope constructs.Construct, settings Settings) awscdk.Stack {
	p := &awscdk.StackProps{Description: jsii.String("Weir: a rate limiter for APIs on API Gateway, in front of an example API")}
	id := "Weir-" + settings.Namespace
	if settings.Regions != nil {
		p.StackName, p.Env = jsii.String(id), &awscdk.Environment{Region: jsii.String(settings.Region)}
		id += "-" + settings.Region
	}
	s := &stage{stack: awscdk.NewStack(scope, jsii.String(id), p), settings: settings}
	s.alarms = s.newTopic()
	s.limits = ratelimit.NewLimits(s.stack, jsii.String("Limits"), s.props())
	s.handler = s.limits.NewFunction("Handler", ratelimit.FunctionProps{Bundle: s.limits.Bundle("handler"), Role: "handler",
		Timeout: handlerTimeout})
	s.rest = s.newRESTAPI()
	s.limits.Attach(s.rest)
	s.http = s.newHTTPAPI()
	if settings.WAF > 0 {
		awswafv2.NewCfnWebACLAssociation(s.stack, jsii.String("WebAclOfRest"), &awswafv2.CfnWebACLAssociationProps{
			WebAclArn:   ratelimit.NewWebACL(s.stack, "REGIONAL", "weir-"+settings.Namespace, settings.WAF).AttrArn(),
			ResourceArn: s.rest.DeploymentStage().StageArn(),
		})
	}
	failed := ratelimit.APIErrors("HTTP", s.http.ApiId()) // the construct does not know the HTTP API
	s.limits.NewAlarm(s.stack, ratelimit.Alarm{
		Name: "http-errors", Description: "More than 1 % of the HTTP API's answers are 5xx. Look at handler-errors and handler-throttled, " +
			"then at the handler's log.", Metric: ratelimit.Enough(failed, "httpRequests"), Above: 1, Of: 3, In: 5,
	})
	s.newOutputs(s.limits.NewDashboard(s.stack, ratelimit.APIErrors("REST", s.rest.RestApiName()), failed))
	return s.stack
}

// NewEach adds the stacks of all regions to an app. Each depends on the one before it: the first creates the records of all, and the
// last publishes the rules, when the others have the code that reads them.
func NewEach(scope constructs.Construct, settings Settings) (all []awscdk.Stack) {
	for i, each := range settings.Each() {
		all = append(all, New(scope, each))
		if i > 0 {
			all[i].AddDependency(all[i-1], jsii.String("records and rules"))
		}
	}
	return all
}

func (s *stage) props() *ratelimit.LimitsProps {
	p := s.settings.LimitsProps
	p.AlarmAction = awscloudwatchactions.NewSnsAction(s.alarms)
	if p.Address != "" && p.Address != contract.AddressHost {
		p.OriginSecret = s.secret("OriginSecret", "The value of Weir-Origin-Secret in requests from the distribution or the proxy.", "", nil)
		p.PreviousOriginSecret = s.secret("PreviousOriginSecret", "A second valid value, until every distribution or proxy sends the first. "+
			"Empty means none.", "?", jsii.String(""))
	}
	return &p
}

// secret adds a parameter and returns its value. times is how often a secret is in it, in a regular expression.
func (s *stage) secret(id, description, times string, otherwise *string) string {
	return *awscdk.NewCfnParameter(s.stack, jsii.String(id), &awscdk.CfnParameterProps{
		NoEcho: jsii.Bool(true), Default: otherwise, Description: jsii.String(description),
		AllowedPattern: jsii.Sprintf("([!-~]{%d,})%s", contract.MinOriginSecret, times),
	}).ValueAsString()
}

func (s *stage) newTopic() awssns.Topic {
	topic := awssns.NewTopic(s.stack, jsii.String("Alarms"), &awssns.TopicProps{EnforceSSL: jsii.Bool(true)})
	// This policy replaces the topic's default policy, which would let all alarms of the account
	// publish.
	topic.AddToResourcePolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("sns:Publish"),
		Resources:  &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{"StringEquals": map[string]*string{"aws:SourceAccount": s.stack.Account()}},
	}))
	if s.settings.AlarmEmail != "" {
		topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(jsii.String(s.settings.AlarmEmail), nil))
	}
	return topic
}

// newOutputs adds the outputs: the URLs, and the names that the commands of operators need.
func (s *stage) newOutputs(dashboard *string) {
	variables := s.limits.LayerVariables()
	s.rest.Node().TryRemoveChild(jsii.String("Endpoint")) // the CDK's own output has the same URL as RestUrl
	for _, o := range []struct {
		id    string
		value *string
	}{
		{"RestUrl", jsii.Sprintf("https://%s.execute-api.%s.%s/%s", *s.rest.RestApiId(), *s.stack.Region(), *s.stack.UrlSuffix(),
			*s.rest.DeploymentStage().StageName())},
		{"HttpUrl", s.http.ApiEndpoint()},
		{"Store", variables[contract.LayerVariable(contract.VariableStore)]},
		{"RecordsTable", s.limits.Records().TableName()},
		{"Regions", jsii.String(strings.Join(s.settings.Regions, ","))}, // make deploy compares the next list with it
		{"DashboardUrl", jsii.Sprintf("https://console.aws.amazon.com/cloudwatch/home?region=%s#dashboards:name=%s",
			*s.stack.Region(), *dashboard)},
	} {
		if o.value == nil || *o.value == "" { // one region
			continue
		}
		awscdk.NewCfnOutput(s.stack, jsii.String(o.id), &awscdk.CfnOutputProps{Value: o.value})
	}
}
