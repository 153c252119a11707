package ratelimit

import (
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// Excuse suppresses a finding of cdk-nag on a construct and records the reason. rule is the name of
// the nag rule, such as AwsSolutions-IAM5. findings are the suppressed details, such as Resource::*.
// Without findings, all details are suppressed.
func Excuse(c constructs.IConstruct, rule, reason string, findings ...string) {
	s := &cdknag.NagPackSuppression{Id: jsii.String(rule), Reason: jsii.String(reason)}
	if len(findings) > 0 {
		all := make([]any, len(findings))
		for i, f := range findings {
			all[i] = f
		}
		s.AppliesTo = &all
	}
	cdknag.NagSuppressions_AddResourceSuppressions(c, &[]*cdknag.NagPackSuppression{s}, jsii.Bool(true))
}
