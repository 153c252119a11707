package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/limiter/storetest"
)

// The distribution passes on requests of any method over TLS with the secret, a parameter that CloudFormation hides, keeps
// no answer and no error, and runs the function and WAF.
func TestStack(t *testing.T) {
	storetest.Program(t, "node")
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
	stack := newStack(app, settings{
		stage: "prod", api: "https://a1.execute-api.eu-central-1.amazonaws.com/prod", waf: 2000,
		topic:  "arn:aws:sns:us-east-1:123456789012:alarms",
		domain: "api.example.com", certificate: "arn:aws:acm:us-east-1:123456789012:certificate/c",
	})
	content, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	template := string(content)
	for _, want := range []string{
		`"DomainName":"a1.execute-api.eu-central-1.amazonaws.com"`, `"OriginPath":"/prod"`,
		`"HeaderName":"Weir-Origin-Secret","HeaderValue":{"Ref":"OriginSecret"}`, `"NoEcho":true`,
		`"CachePolicyId":"4135ea2d-6df8-44a3-9df3-4b5a84be39ad"`, `"OriginRequestPolicyId":"b689b0a8-53d0-40ab-baf2-68738e2966ac"`,
		`"ViewerProtocolPolicy":"https-only"`, `"ConnectionAttempts":1`,
		`"ErrorCachingMinTTL":0,"ErrorCode":503`, `"EventType":"viewer-request"`, `"Runtime":"cloudfront-js-2.0"`, `"KeyValueStoreAssociations"`,
		`"MinimumProtocolVersion":"TLSv1.2_2021"`,
		`"RateBasedStatement":{"AggregateKeyType":"IP","EvaluationWindowSec":300,"Limit":2000}`, `"Scope":"CLOUDFRONT"`,
		`"MetricName":"5xxErrorRate"`, `"Expression":"IF((requests) \u003e= 10, failed, 0)"`,
	} {
		if !strings.Contains(template, want) {
			t.Errorf("got no %s in %s", want, template)
		}
	}
}

func TestSettings_check(t *testing.T) {
	good := settings{stage: "dev", api: "https://api.example", waf: 10}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*settings){
		"-c api=": func(s *settings) { s.api = "api.example" }, "-c waf=": func(s *settings) { s.waf = 9 },
		"-c domain=":      func(s *settings) { s.domain = "a" },
		"-c certificate=": func(s *settings) { s.domain, s.certificate = "a", "arn:aws:acm:eu-central-1:1:certificate/c" },
	} {
		s := good
		change(&s)
		if err := s.check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got error %v, want one that begins with %s", s, err, want)
		}
	}
}
