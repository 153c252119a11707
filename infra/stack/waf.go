package stack

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"
)

// protectREST blocks addresses that send far too many requests, before API Gateway calls the authorizer.
func (s *stage) protectREST() {
	awswafv2.NewCfnWebACLAssociation(s.stack, jsii.String("WebAclOfRest"), &awswafv2.CfnWebACLAssociationProps{
		WebAclArn: s.newWebACL().AttrArn(), ResourceArn: s.rest.DeploymentStage().StageArn(),
	})
}

// newWebACL creates a web ACL with a limit for each address. It does not replace limits: WAF counts late and
// imprecisely. It reads the address of the connection and not X-Forwarded-For, whose first entry the client writes.
func (s *stage) newWebACL() awswafv2.CfnWebACL {
	visible := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{
			CloudWatchMetricsEnabled: jsii.Bool(true), SampledRequestsEnabled: jsii.Bool(true), MetricName: jsii.String(name),
		}
	}
	return awswafv2.NewCfnWebACL(s.stack, jsii.String("WebAcl"), &awswafv2.CfnWebACLProps{
		Scope:            jsii.String("REGIONAL"),
		DefaultAction:    &awswafv2.CfnWebACL_DefaultActionProperty{Allow: &awswafv2.CfnWebACL_AllowActionProperty{}},
		VisibilityConfig: visible("weir-" + s.settings.Namespace),
		Rules: &[]any{&awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String("address"), Priority: jsii.Number(0), VisibilityConfig: visible("weir-" + s.settings.Namespace + "-address"),
			Action: &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{
				CustomResponse: &awswafv2.CfnWebACL_CustomResponseProperty{
					ResponseCode:    jsii.Number(429),
					ResponseHeaders: &[]any{&awswafv2.CfnWebACL_CustomHTTPHeaderProperty{Name: jsii.String("Retry-After"), Value: jsii.String("300")}},
				},
			}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
				AggregateKeyType: jsii.String("IP"), Limit: jsii.Number(s.settings.WAF), EvaluationWindowSec: jsii.Number(300),
			}},
		}},
	})
}
