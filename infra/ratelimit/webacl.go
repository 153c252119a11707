package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// NewWebACL creates a web ACL that blocks an address with more than most requests in five minutes, at least 10. scope is where
// AWS uses it: REGIONAL or CLOUDFRONT. It does not replace limits: WAF counts late and imprecisely. It reads the address of the
// connection and not X-Forwarded-For, whose first entry the client writes.
func NewWebACL(in constructs.Construct, scope, name string, most float64) awswafv2.CfnWebACL {
	visible := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{
			CloudWatchMetricsEnabled: jsii.Bool(true), SampledRequestsEnabled: jsii.Bool(true), MetricName: &name,
		}
	}
	return awswafv2.NewCfnWebACL(in, jsii.String("WebAcl"), &awswafv2.CfnWebACLProps{
		Scope: &scope, VisibilityConfig: visible(name),
		DefaultAction: &awswafv2.CfnWebACL_DefaultActionProperty{Allow: &awswafv2.CfnWebACL_AllowActionProperty{}},
		Rules: &[]any{&awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String("address"), Priority: jsii.Number(0), VisibilityConfig: visible(name + "-address"),
			Action: &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{
				CustomResponse: &awswafv2.CfnWebACL_CustomResponseProperty{
					ResponseCode:    jsii.Number(429),
					ResponseHeaders: &[]any{&awswafv2.CfnWebACL_CustomHTTPHeaderProperty{Name: jsii.String("Retry-After"), Value: jsii.String("300")}},
				},
			}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
				AggregateKeyType: jsii.String("IP"), Limit: &most, EvaluationWindowSec: jsii.Number(300),
			}},
		}},
	})
}
