package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// newRefusedMost creates a Contributor Insights rule that ranks pairs of caller and limit by
// refused requests. It counts log lines of limiter/telemetry.
func (l *Limits) newRefusedMost() {
	l.refusedMost = awscloudwatch.NewCfnInsightRule(l, jsii.String("RefusedMost"), &awscloudwatch.CfnInsightRuleProps{
		RuleName: jsii.String("weir-" + l.props.Namespace + "-refused-most"), RuleState: jsii.String("ENABLED"), RuleBody: l.contributors(),
	})
}

// contributors returns the rule's definition for the log groups of all functions that make
// decisions.
func (l *Limits) contributors() *string {
	return awscdk.Stack_Of(l).ToJsonString(map[string]any{
		"Schema":        map[string]any{"Name": "CloudWatchLogRule", "Version": 1},
		"LogGroupNames": l.logs,
		"LogFormat":     "JSON",
		"Contribution": map[string]any{
			"Keys":    []string{"$." + contract.LineSubject, "$." + contract.LineLimit},
			"ValueOf": "$." + contract.LineCount,
			"Filters": []any{
				map[string]any{"Match": "$." + contract.LineKind, "In": []string{telemetry.LineRefused}},
				map[string]any{"Match": "$." + contract.LineSubject, "IsPresent": true},
			},
		},
		"AggregateOn": "Sum",
	}, nil)
}

// watch adds a log group to the Contributor Insights rule.
func (l *Limits) watch(logs *string) {
	l.logs = append(l.logs, logs)
	if l.refusedMost != nil {
		l.refusedMost.SetRuleBody(l.contributors())
	}
}
