package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
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

// saved are queries of CloudWatch Logs Insights, by the end of their names. They read log lines of limiter/telemetry.
var saved = []struct{ name, query string }{
	{"why-refused", "# replace HASH by the hash that weir usage prints for the caller\n" +
		"filter " + contract.LineKind + ` = "` + telemetry.LineRefused + `" and ` + contract.LineSubject + " = \"HASH\"\n" +
		"| display @timestamp, rule, `" + contract.LineLimit + "`, `" + contract.LineCount +
		"`, remaining, capacity, retryAfterSeconds, addressFrom\n" +
		"| sort @timestamp desc\n| limit 1000"},
	{"who-is-limited", "filter " + contract.LineKind + ` = "` + telemetry.LineRefused + "\"\n" +
		"| stats sum(`" + contract.LineCount + "`) as requests, min(@timestamp) as first, max(@timestamp) as last by " + contract.LineSubject +
		", rule, `" + contract.LineLimit + "`\n" +
		"| sort requests desc\n| limit 1000"},
	{"without-store", "filter " + telemetry.Degraded + " > 0\n" +
		"| stats sum(" + telemetry.Degraded + ") as decisions by bin(1m)"},
}

// saveQueries creates the saved queries.
func (l *Limits) saveQueries() {
	for _, q := range saved {
		definition := awslogs.NewCfnQueryDefinition(l, jsii.String("Query-"+q.name), &awslogs.CfnQueryDefinitionProps{
			Name: jsii.String("weir-" + l.props.Namespace + "/" + q.name), QueryString: jsii.String(q.query),
		})
		definition.SetLogGroupNames(&l.logs)
		l.queries = append(l.queries, definition)
	}
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

// watch adds a log group to the Contributor Insights rule and to the saved queries.
func (l *Limits) watch(logs *string) {
	l.logs = append(l.logs, logs)
	if l.refusedMost != nil {
		l.refusedMost.SetRuleBody(l.contributors())
	}
	for _, q := range l.queries {
		q.SetLogGroupNames(&l.logs)
	}
}
