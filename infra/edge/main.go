// Command edge is a CDK app: a CloudFront distribution in front of one API, with WAF and an alarm. It is in us-east-1,
// where CloudFront's web ACLs and metrics are. README.md describes its settings.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfrontorigins"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/infra/ratelimit"
)

const region = "us-east-1"

// settings are the values of -c key=value.
type settings struct {
	stage               string
	api                 string // URL of the API, such as https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com/prod
	domain, certificate string // name of the distribution, and the ARN of its certificate; "" for a name of cloudfront.net
	topic               string // ARN of the topic of the alarm; "" for none
	waf                 float64
}

func (s settings) check() error {
	rest, secure := strings.CutPrefix(s.api, "https://")
	switch {
	case !secure || rest == "":
		return fmt.Errorf("-c api=%s: want the URL of an API, such as https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com/prod", s.api)
	case (s.domain == "") != (s.certificate == ""):
		return fmt.Errorf("-c domain=%s -c certificate=%s: want both or none", s.domain, s.certificate)
	case s.certificate != "" && !strings.Contains(s.certificate, ":"+region+":"):
		return fmt.Errorf("-c certificate=%s: want an ARN in %s, where CloudFront looks for it", s.certificate, region)
	case s.waf < 10:
		return fmt.Errorf("-c waf=%v: want at least 10, the minimum of WAF", s.waf)
	}
	return nil
}

func main() {
	app := awscdk.NewApp(nil)
	text := func(key, otherwise string) string {
		if value := app.Node().TryGetContext(jsii.String(key)); value != nil {
			return fmt.Sprint(value)
		}
		return otherwise
	}
	s := settings{stage: text("stage", "dev"), api: text("api", ""), domain: text("domain", ""), certificate: text("certificate", ""),
		topic: text("topic", "")}
	_, err := fmt.Sscan(text("waf", "2000"), &s.waf)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	newStack(app, s)
	app.Synth(nil)
}

// cached are the statuses that CloudFront keeps for ten seconds by default. The cache policy applies to the others.
var cached = []float64{400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504}

// newStack adds the stack to an app. It passes on every request, and keeps no answer.
func newStack(scope constructs.Construct, s settings) awscdk.Stack {
	stack := awscdk.NewStack(scope, jsii.String("Weir-edge-"+s.stage),
		&awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String(region)}})
	secret := awscdk.NewCfnParameter(stack, jsii.String("OriginSecret"), &awscdk.CfnParameterProps{
		NoEcho: jsii.Bool(true), MinLength: jsii.Number(32), Description: jsii.String("The secret that proves to the functions that a request " +
			"comes from this distribution."),
	})
	host, path, _ := strings.Cut(strings.TrimPrefix(s.api, "https://"), "/")
	origin := &awscloudfrontorigins.HttpOriginProps{
		ProtocolPolicy:     awscloudfront.OriginProtocolPolicy_HTTPS_ONLY,
		OriginSslProtocols: &[]awscloudfront.OriginSslPolicy{awscloudfront.OriginSslPolicy_TLS_V1_2},
		CustomHeaders:      &map[string]*string{contract.OriginSecretField: secret.ValueAsString()},
		ConnectionAttempts: jsii.Number(1), // CloudFront repeats a GET that timed out as often, and the limits would charge each
	}
	path = strings.TrimSuffix(path, "/")
	if path != "" {
		origin.OriginPath = jsii.String("/" + path)
	}
	blocked := awscloudfront.NewKeyValueStore(stack, jsii.String("Blocked"),
		&awscloudfront.KeyValueStoreProps{Comment: jsii.String("Weir: callers whom an operator blocked")})
	function := awscloudfront.NewFunction(stack, jsii.String("Viewer"), &awscloudfront.FunctionProps{
		Code: awscloudfront.FunctionCode_FromInline(jsii.String(edge.Viewer())), Runtime: awscloudfront.FunctionRuntime_JS_2_0(),
		KeyValueStore: blocked,
	})
	props := &awscloudfront.DistributionProps{
		Comment: jsii.String("Weir " + s.stage), HttpVersion: awscloudfront.HttpVersion_HTTP2_AND_3,
		WebAclId: ratelimit.NewWebACL(stack, "CLOUDFRONT", "weir-"+s.stage+"-edge", s.waf).AttrArn(),
		DefaultBehavior: &awscloudfront.BehaviorOptions{
			Origin:               awscloudfrontorigins.NewHttpOrigin(jsii.String(host), origin),
			AllowedMethods:       awscloudfront.AllowedMethods_ALLOW_ALL(),
			ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY, // a redirect would come after the credentials
			CachePolicy:          awscloudfront.CachePolicy_CACHING_DISABLED(),
			OriginRequestPolicy:  awscloudfront.OriginRequestPolicy_ALL_VIEWER_EXCEPT_HOST_HEADER(), // API Gateway rejects another Host
			Compress:             jsii.Bool(false),
			FunctionAssociations: &[]*awscloudfront.FunctionAssociation{{EventType: awscloudfront.FunctionEventType_VIEWER_REQUEST,
				Function: function}},
		},
		ErrorResponses: &[]*awscloudfront.ErrorResponse{},
	}
	for _, status := range cached {
		*props.ErrorResponses = append(*props.ErrorResponses, &awscloudfront.ErrorResponse{HttpStatus: jsii.Number(status),
			Ttl: awscdk.Duration_Seconds(jsii.Number(0))})
	}
	if s.domain != "" {
		props.DomainNames = jsii.Strings(s.domain)
		props.Certificate = awscertificatemanager.Certificate_FromCertificateArn(stack, jsii.String("Certificate"), jsii.String(s.certificate))
		props.MinimumProtocolVersion = awscloudfront.SecurityPolicyProtocol_TLS_V1_2_2021
	}
	d := awscloudfront.NewDistribution(stack, jsii.String("Distribution"), props)
	of := map[string]*string{"DistributionId": d.DistributionId(), "Region": jsii.String("Global")}
	alarm := awscloudwatch.NewAlarm(stack, jsii.String("Errors"), &awscloudwatch.AlarmProps{
		AlarmName: jsii.String("weir-" + s.stage + "-edge-errors"),
		AlarmDescription: jsii.String("More than 1 % of the distribution's answers are 5xx. If the alarm on the API's errors is silent, " +
			"CloudFront cannot reach the API, or the function fails."),
		Metric: ratelimit.Enough(ratelimit.Percent("5xx, %", "failed", map[string]awscloudwatch.IMetric{
			"failed":   ratelimit.Metric("AWS/CloudFront", "5xxErrorRate", "Average", of),
			"requests": ratelimit.Metric("AWS/CloudFront", "Requests", "Sum", of),
		}), "requests"),
		Threshold: jsii.Number(1), ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
		DatapointsToAlarm: jsii.Number(3), EvaluationPeriods: jsii.Number(5), TreatMissingData: awscloudwatch.TreatMissingData_NOT_BREACHING,
	})
	if s.topic != "" {
		alarm.AddAlarmAction(awscloudwatchactions.NewSnsAction(awssns.Topic_FromTopicArn(stack, jsii.String("Topic"), jsii.String(s.topic))))
	}
	awscdk.NewCfnOutput(stack, jsii.String("Url"), &awscdk.CfnOutputProps{Value: jsii.String("https://" + *d.DistributionDomainName())})
	awscdk.NewCfnOutput(stack, jsii.String("KeyValueStore"), &awscdk.CfnOutputProps{Value: blocked.KeyValueStoreArn()})
	return stack
}
