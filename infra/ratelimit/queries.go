package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// saved are queries of CloudWatch Logs Insights, by the end of their names. They read log lines of limiter/telemetry.
var saved = []struct{ name, query string }{
	{"why-refused", "# replace HASH by the hash that weir usage prints for the caller\n" +
		"filter " + contract.LineKind + ` = "` + telemetry.LineRefused + `" and ` + contract.LineSubject + " = \"HASH\"\n" +
		"| display @timestamp, rule, `" + contract.LineLimit + "`, `" + contract.LineCount +
		"`, remaining, capacity, retryAfterSeconds, addressFrom\n" +
		"| sort @timestamp desc\n| limit 1000"},
	{"who-is-limited", whoIsLimited + "1000"},
	{"without-store", "filter " + telemetry.Degraded + " > 0\n" +
		"| stats sum(" + telemetry.Degraded + ") as decisions by bin(1m)"},
}

// whoIsLimited ranks callers and limits by refused requests. The number of its rows follows.
const whoIsLimited = "filter " + contract.LineKind + ` = "` + telemetry.LineRefused + "\"\n" +
	"| stats sum(`" + contract.LineCount + "`) as requests, min(@timestamp) as first, max(@timestamp) as last by " + contract.LineSubject +
	", rule, `" + contract.LineLimit + "`\n" +
	"| sort requests desc\n| limit "

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

// watch adds a log group to the saved queries.
func (l *Limits) watch(logs *string) {
	l.logs = append(l.logs, logs)
	for _, q := range l.queries {
		q.SetLogGroupNames(&l.logs)
	}
}
