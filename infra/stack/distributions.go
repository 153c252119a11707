package stack

import (
	"cmp"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// newDistributions puts a distribution in front of each API. WAF, if it is on, runs there.
func (s *stage) newDistributions() {
	acl := s.settings.WebACL
	if s.settings.WAF > 0 {
		if region := s.settings.Region; region != globalRegion {
			panic(fmt.Errorf("waf: got a stack with distributions in %s, want %s, the only region for web ACLs of CloudFront; deploy there, or create the web ACL there and set webAcl to its ARN instead of waf", cmp.Or(region, "an unknown region"), globalRegion))
		}
		acl = *s.newWebACL("CLOUDFRONT").AttrArn()
	}
	var logs awss3.IBucket
	if !s.settings.CloudFrontUnlogged {
		if err := ratelimit.CheckLogRegion(s.settings.Region); err != nil {
			panic(fmt.Errorf("cloudfront: %w; set cloudfrontLogs=false", err))
		}
		logs = s.limits.NewDistributionLogs(s.stack, "distribution-logs")
	}
	host := func(api *string) string {
		return fmt.Sprintf("%s.execute-api.%s.%s", *api, *s.stack.Region(), *s.stack.UrlSuffix())
	}
	s.restFront = s.limits.NewDistribution(s.stack, "rest-distribution", ratelimit.DistributionProps{
		Host: host(s.rest.RestApiId()), Path: "/" + *s.rest.DeploymentStage().StageName(),
		Domain: s.settings.RestDomain, Certificate: certificate(s.settings.RestDomain, s.settings), WebACL: acl, Logs: logs,
	})
	s.httpFront = s.limits.NewDistribution(s.stack, "http-distribution", ratelimit.DistributionProps{
		Host:   host(s.http.ApiId()),
		Domain: s.settings.HTTPDomain, Certificate: certificate(s.settings.HTTPDomain, s.settings), WebACL: acl, Logs: logs,
	})
}

func certificate(domain string, settings Settings) string {
	if domain == "" {
		return ""
	}
	return settings.Certificate
}

// urlOf returns the URL of a distribution, or nil without one.
func urlOf(d awscloudfront.Distribution) *string {
	if d == nil {
		return nil
	}
	return jsii.Sprintf("https://%s", *d.DistributionDomainName())
}
