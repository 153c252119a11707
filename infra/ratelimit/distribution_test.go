package ratelimit_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Several distributions share the viewer function and the secret, also if the rules are not deployed.
func TestLimits_NewDistribution(t *testing.T) {
	for _, from := range []string{"", "table"} {
		_, stack, api := newAPI(t)
		p := props(t)
		p.ViewerAddress, p.RulesFrom = "weir", from
		l := ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		l.Attach(api)
		for _, id := range []string{"a", "b"} {
			l.NewDistribution(stack, id, ratelimit.DistributionProps{Host: "api.example"})
		}
		made := assertions.Template_FromStack(stack, nil)
		for kind, want := range map[string]float64{
			"AWS::CloudFront::Distribution": 2, "AWS::CloudFront::Function": 1, "AWS::CloudFront::KeyValueStore": 1, "Custom::WeirOriginSecret": 1, "AWS::S3::Bucket": 0,
			"Custom::WeirRules": map[string]float64{"": 1, "table": 0}[from],
		} {
			made.ResourceCountIs(jsii.String(kind), jsii.Number(want))
		}
		made.HasResourceProperties(jsii.String("AWS::CloudWatch::Alarm"), map[string]any{"AlarmName": "weir-test-addresses-not-found", "MetricName": "AddressesNotFound", "Threshold": 0})
		made.AllResourcesProperties(jsii.String("AWS::CloudFront::Distribution"), map[string]any{"DistributionConfig": map[string]any{
			"Logging": assertions.Match_Absent(), "WebACLId": assertions.Match_Absent(), "ViewerCertificate": assertions.Match_Absent(),
		}})
	}
}

func TestLimits_NewDistribution_mistakes(t *testing.T) {
	app, stack, _ := newAPI(t)
	newLimits := func(namespace, viewer string) *ratelimit.Limits {
		p := props(t)
		p.Namespace, p.ViewerAddress = namespace, viewer
		return ratelimit.NewLimits(stack, jsii.String("Limits-"+namespace), p)
	}
	l, api := newLimits("weir", "weir"), ratelimit.DistributionProps{Host: "api.example"}
	for want, do := range map[string]func(){
		`ViewerAddress: got "", want weir with a distribution`:       func() { newLimits("none", "").NewDistribution(stack, "front", api) },
		`ViewerAddress: got "hops:1", want weir with a distribution`: func() { newLimits("hops", "hops:1").NewDistribution(stack, "front", api) },
		`Domain "api.example.com" and Certificate "", want both or`: func() {
			l.NewDistribution(stack, "front", ratelimit.DistributionProps{Host: "api.example", Domain: "api.example.com"})
		},
		"front: got the stack Other, want ": func() { l.NewDistribution(awscdk.NewStack(app, jsii.String("Other"), nil), "front", api) },
	} {
		if got := panicked(do); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// In a region that is known not to get logs, the construct creates no bucket for them.
func TestLimits_NewDistributionLogs_region(t *testing.T) {
	app, stack, _ := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	for region, want := range map[string]string{"eu-central-1": "", "me-south-1": "logs of a distribution: got a bucket in me-south-1, want a region"} {
		stack := awscdk.NewStack(app, jsii.String("In-"+region), &awscdk.StackProps{Env: &awscdk.Environment{Region: jsii.String(region)}})
		if got := panicked(func() { l.NewDistributionLogs(stack, "logs") }); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: got the panic %q, want %q", region, got, want)
		}
	}
}
