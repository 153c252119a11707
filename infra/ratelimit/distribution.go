package ratelimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfrontorigins"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
)

// DistributionProps are the properties of [Limits.NewDistribution]. Host is required.
type DistributionProps struct {
	// Host is the host name of the API, such as a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com.
	Host string
	// Path precedes every path at Host, such as /prod for the stage of a REST API.
	Path string
	// Domain is the name of the distribution, such as api.example.com, and Certificate the ARN of its certificate, in
	// us-east-1. Without them, clients use a name of cloudfront.net, for which CloudFront also accepts TLS 1.0.
	Domain, Certificate string
	// WebACL is the ARN of a web ACL of WAF with the scope CLOUDFRONT, which exists only in us-east-1. "" means none.
	WebACL string
	// Logs is a bucket that accepts ACLs, from [Limits.NewDistributionLogs]. CloudFront writes a line with the address of
	// the client for each request. nil means no logs.
	Logs awss3.IBucket
}

// cachedErrors are the statuses for which CloudFront accepts a lifetime. By default, it keeps most of them for ten
// seconds, and answers them to other clients. It keeps 400, 403, 412 and 415 only if the answer asks for it with
// max-age, and 429 never. For 412 and 415 it accepts no lifetime; the cache policy, whose maximum is 0, applies.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/HTTPStatusCodes.html
var cachedErrors = []float64{400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504}

// logExpiry is the number of days after which the logs of a distribution are deleted.
const logExpiry = 30

// NewDistribution creates a CloudFront distribution in front of an API whose functions have these limits. It passes on
// every request, caches nothing, and proves itself with a secret field. LimitsProps.ViewerAddress MUST be
// contract.ViewerWeir: CloudFront sends no field with the address of the client together with the Host that API Gateway
// accepts, so a function in the distribution writes one. scope MUST be in the stack of the limits.
//
// CloudFront's metrics exist only in us-east-1, and alarms read only metrics of their region. So the alarm on the
// distribution's errors exists only if the stack is in us-east-1.
func (l *Limits) NewDistribution(scope constructs.Construct, id string, p DistributionProps) awscloudfront.Distribution {
	if got := l.props.ViewerAddress; got != contract.ViewerWeir {
		panic(fmt.Errorf("ratelimit: ViewerAddress: got %q, want %s with a distribution; otherwise all its clients would share the address of its servers", got, contract.ViewerWeir))
	}
	if (p.Domain == "") != (p.Certificate == "") {
		panic(fmt.Errorf("ratelimit: %s: got Domain %q and Certificate %q, want both or none", id, p.Domain, p.Certificate))
	}
	if own, other := *awscdk.Stack_Of(l).Node().Path(), *awscdk.Stack_Of(scope).Node().Path(); own != other {
		panic(fmt.Errorf("ratelimit: %s: got the stack %s, want %s, the stack of the limits; for another stack, the secret would be an output, which CloudFormation does not hide", id, other, own))
	}
	props := &awscloudfront.DistributionProps{
		Comment:         jsii.Sprintf("Weir %s: %s", l.props.Namespace, id),
		DefaultBehavior: l.behavior(p),
		HttpVersion:     awscloudfront.HttpVersion_HTTP2_AND_3,
		ErrorResponses:  uncached(),
	}
	if p.Domain != "" {
		props.DomainNames = jsii.Strings(p.Domain)
		props.Certificate = awscertificatemanager.Certificate_FromCertificateArn(scope, jsii.String(id+"Certificate"), jsii.String(p.Certificate))
		props.MinimumProtocolVersion = awscloudfront.SecurityPolicyProtocol_TLS_V1_2_2021
	}
	if p.WebACL != "" {
		props.WebAclId = jsii.String(p.WebACL)
	}
	if p.Logs != nil {
		props.EnableLogging, props.LogBucket, props.LogFilePrefix = jsii.Bool(true), p.Logs, jsii.String(id+"/")
	}
	d := awscloudfront.NewDistribution(scope, jsii.String(id), props)
	l.excuseDistribution(d, p)
	l.newDistributionAlarm(d, strings.ToLower(id))
	return d
}

// behavior returns how the distribution treats requests. Clients that use http get 403, because a redirect would come
// after they sent their credentials.
func (l *Limits) behavior(p DistributionProps) *awscloudfront.BehaviorOptions {
	origin := &awscloudfrontorigins.HttpOriginProps{
		ProtocolPolicy:     awscloudfront.OriginProtocolPolicy_HTTPS_ONLY,
		OriginSslProtocols: &[]awscloudfront.OriginSslPolicy{awscloudfront.OriginSslPolicy_TLS_V1_2},
		CustomHeaders:      &map[string]*string{contract.OriginSecretField: l.originSecret()},
		ConnectionAttempts: jsii.Number(1), // CloudFront repeats a GET that timed out as often, and the limits would charge each
	}
	if p.Path != "" {
		origin.OriginPath = jsii.String(p.Path)
	}
	return &awscloudfront.BehaviorOptions{
		Origin:               awscloudfrontorigins.NewHttpOrigin(jsii.String(p.Host), origin),
		AllowedMethods:       awscloudfront.AllowedMethods_ALLOW_ALL(),
		ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
		CachePolicy:          awscloudfront.CachePolicy_CACHING_DISABLED(),
		OriginRequestPolicy:  awscloudfront.OriginRequestPolicy_ALL_VIEWER_EXCEPT_HOST_HEADER(), // API Gateway rejects another Host
		Compress:             jsii.Bool(false),
		FunctionAssociations: &[]*awscloudfront.FunctionAssociation{{
			EventType: awscloudfront.FunctionEventType_VIEWER_REQUEST, Function: l.viewerFunction(),
		}},
	}
}

func uncached() *[]*awscloudfront.ErrorResponse {
	var all []*awscloudfront.ErrorResponse
	for _, status := range cachedErrors {
		all = append(all, &awscloudfront.ErrorResponse{HttpStatus: jsii.Number(status), Ttl: awscdk.Duration_Seconds(jsii.Number(0))})
	}
	return &all
}

func (l *Limits) viewerFunction() awscloudfront.Function {
	if l.viewer == nil {
		l.viewer = awscloudfront.NewFunction(l, jsii.String("Viewer"), &awscloudfront.FunctionProps{
			Code: awscloudfront.FunctionCode_FromInline(jsii.String(edge.Viewer())), Runtime: awscloudfront.FunctionRuntime_JS_2_0(),
			KeyValueStore: l.list,
			Comment:       jsii.Sprintf("Weir %s: the address of the client", l.props.Namespace),
		})
	}
	return l.viewer
}

// unlogged lists regions: CloudFront writes no logs to a bucket there, so a deployment with such a bucket would fail.
// https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logging-legacy-s3.html
var unlogged = []string{
	"af-south-1", "ap-east-1", "ap-south-2", "ap-southeast-3", "ap-southeast-4", "ca-west-1", "eu-south-1", "eu-south-2",
	"eu-central-2", "il-central-1", "me-central-1", "me-south-1",
}

// CheckLogRegion returns an error if CloudFront writes no logs to buckets in a region. "" is an unknown region.
func CheckLogRegion(region string) error {
	if slices.Contains(unlogged, region) {
		return fmt.Errorf("logs of a distribution: got a bucket in %s, want a region that accounts need not enable, because CloudFront writes no logs to the others", region)
	}
	return nil
}

// NewDistributionLogs creates a bucket for the logs of distributions, which it keeps for 30 days. It outlives the
// stack, because CloudFormation cannot delete a bucket with objects. It panics in a region that [CheckLogRegion] rejects.
func (l *Limits) NewDistributionLogs(scope constructs.Construct, id string) awss3.Bucket {
	if err := CheckLogRegion(*awscdk.Stack_Of(scope).Region()); err != nil {
		panic(fmt.Errorf("ratelimit: %s: %w; leave out DistributionProps.Logs", id, err))
	}
	b := awss3.NewBucket(scope, jsii.String(id), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(), Encryption: awss3.BucketEncryption_S3_MANAGED, EnforceSSL: jsii.Bool(true),
		ObjectOwnership: awss3.ObjectOwnership_BUCKET_OWNER_PREFERRED, // CloudFront grants itself access with an ACL
		RemovalPolicy:   awscdk.RemovalPolicy_RETAIN,
		LifecycleRules:  &[]*awss3.LifecycleRule{{Expiration: awscdk.Duration_Days(jsii.Number(logExpiry)), AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1))}},
	})
	Excuse(b, "AwsSolutions-S1", "The bucket contains logs; a log of its accesses would need another bucket.")
	return b
}

func (l *Limits) excuseDistribution(d awscloudfront.Distribution, p DistributionProps) {
	Excuse(d, "AwsSolutions-CFR1", "The API is for clients of all countries.")
	if p.WebACL == "" {
		Excuse(d, "AwsSolutions-CFR2", "-c waf=2000 adds a web ACL, at 6 dollars a month and 60 cents a million requests.")
	}
	if p.Logs == nil {
		Excuse(d, "AwsSolutions-CFR3", "The access log of the API has a line for each request that the distribution passes on.")
	}
	if p.Domain == "" {
		Excuse(d, "AwsSolutions-CFR4", "For names of cloudfront.net, CloudFront determines the TLS versions; a domain with a certificate needs TLS 1.2.")
	}
}

// DistributionMetric returns one of AWS's metrics of a distribution. They exist only in us-east-1.
func DistributionMetric(d awscloudfront.IDistribution, name, statistic string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: jsii.String("AWS/CloudFront"), MetricName: jsii.String(name), Statistic: jsii.String(statistic), Region: jsii.String(global),
		Period:        awscdk.Duration_Minutes(jsii.Number(1)),
		DimensionsMap: &map[string]*string{"DistributionId": d.DistributionId(), "Region": jsii.String("Global")},
	})
}

// global is the region of the metrics and the web ACLs of CloudFront.
const global = "us-east-1"

// newDistributionAlarm adds the alarm on the errors of a distribution, if the stack is in the region of its metrics.
func (l *Limits) newDistributionAlarm(d awscloudfront.Distribution, name string) {
	stack := awscdk.Stack_Of(d)
	const condition = "InGlobalRegion"
	here, ok := stack.Node().TryFindChild(jsii.String(condition)).(awscdk.CfnCondition)
	if !ok {
		here = awscdk.NewCfnCondition(stack, jsii.String(condition), &awscdk.CfnConditionProps{
			Expression: awscdk.Fn_ConditionEquals(stack.Region(), global),
		})
	}
	alarm := l.NewAlarm(d, Alarm{name + "-errors", "More than 1 % of the distribution's answers are 5xx. Look at the alarm on the API's errors. If it is silent, the distribution cannot reach the API, or its viewer function fails.", DistributionMetric(d, "5xxErrorRate", "Average"), answersPercent, 3, 5})
	alarm.Node().DefaultChild().(awscdk.CfnResource).CfnOptions().SetCondition(here)
}
