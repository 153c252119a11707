package ratelimit

import (
	"errors"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// responseTypeField is the field of the access log with the type of a gateway response, such as AUTHORIZER_FAILURE.
const responseTypeField = "responseType"

// absent is the value that API Gateway logs for a variable without a value.
const absent = "-"

// logTimeout is the timeout of the function Log. One event can have thousands of log lines.
const logTimeout = 30 * time.Second

// reporting returns whether the rules need the function Log, and whether it reads the access log. check has read them.
func (p *LimitsProps) reporting() boot.Checked {
	switch {
	case p.WeirBehind:
		return boot.Checked{}
	case p.Reports:
		return boot.Checked{Counts: true, CountsFromLog: true}
	}
	return p.found
}

// hasLog reports whether the function Log exists.
func (p *LimitsProps) hasLog() bool { return p.reporting().Counts || p.Kafka != nil }

// newLog creates the function Log behind the subscriptions of logs. It charges what a foreign back end reports if a
// limit of the rules has "count", or if [LimitsProps].Reports is set, and sends decisions to [LimitsProps].Kafka.
func (l *Limits) newLog() {
	checked := l.props.reporting()
	if l.props.hasLog() {
		counters := access{variables: map[string]*string{contract.VariableStore: jsii.String(contract.StoreMemory)}}
		if checked.Counts {
			counters = l.state.access()
		}
		if l.network != nil {
			counters.add(l.network.access())
		}
		if l.props.Kafka != nil {
			l.openKafka()
			counters.add(l.props.Kafka.access())
		}
		l.log = l.newLogFunction(counters)
	}
	if l.props.Reports || l.props.found.Counts {
		l.NewAlarm(l, Alarm{"settlements-lost", "Costs that are known after the answer did not reach the store. Look at the store-* alarms.",
			l.metrics.Metric(telemetry.SettlementsLost, "Sum"), 0, 3, 5})
	}
}

// forwardLines sends the lines of decisions and notices in a log group to the function Log, for Kafka.
func (l *Limits) forwardLines(scope constructs.Construct, id string, logs awslogs.ILogGroup) {
	if l.props.Kafka != nil {
		subscribe(scope, "Kafka"+id, logs, l.log, awslogs.FilterPattern_Exists(jsii.String("$."+contract.LineKind)))
	}
}

// newLogFunction creates a function with the access to the counters. Of the records table, it can read only the key
// of MACs.
func (l *Limits) newLogFunction(counters access) awslambda.Function {
	f := l.newFunction("Log", FunctionProps{Bundle: l.Bundle(contract.Log), Role: contract.Log, Timeout: logTimeout}, nil)
	permitAll(f, counters)
	setVariables(f, counters.variables)
	permit(f, l.record(contract.RecordActions(), contract.MACKeyKey))
	setVariables(f, map[string]*string{
		contract.VariableNamespace: jsii.String(l.props.Namespace), contract.VariableRecordsTable: l.records.TableName(),
	})
	l.addAlarms(
		Alarm{"log-failed", "The function Log fails. Costs that back ends report are not charged, and decisions do not reach Kafka. " +
			"Look at the store-* alarms, then at the log of the function. Lambda repeats lines of a log twice.",
			LambdaMetric(f, "Errors", "Sum"), 0, 2, 5},
		Alarm{"log-throttled", "Lambda throttles the function Log. Back ends that invoke it get an error, and what they report is not " +
			"charged. Raise the account's concurrency.", LambdaMetric(f, "Throttles", "Sum"), 0, 2, 5},
	)
	return f
}

// ReportFunction returns the function that charges what a foreign back end of a REST API reports. A back end that invokes it
// needs the permission: see awslambda.IFunction.GrantInvoke. ReportFunction panics if every limit of the rules counts requests,
// or with WeirBehind.
func (l *Limits) ReportFunction() awslambda.IFunction {
	if !l.props.reporting().Counts {
		panic(errors.New("ratelimit: ReportFunction: no limit of the rules has a count, or WeirBehind is set, so nothing is reported; " +
			"remove the call"))
	}
	return l.log
}

// AccessLogFields returns the fields that the JSON access log of a REST API's stage needs for
// [Limits.WatchAccessLog]. Key: field; value: variable of API Gateway.
func (l *Limits) AccessLogFields() map[string]string {
	fields := map[string]string{responseTypeField: "$context.error.responseType"}
	if l.props.reporting().CountsFromLog {
		fields[contract.LogReport] = "$context.authorizer." + contract.KeyReport
		fields[contract.LogStatus], fields[contract.LogLength] = "$context.status", "$context.responseLength"
	}
	return fields
}

// subscribe sends the lines of a log group that match a pattern to a function.
func subscribe(scope constructs.Construct, id string, logs awslogs.ILogGroup, f awslambda.IFunction, pattern awslogs.IFilterPattern) {
	permission := awslambda.NewCfnPermission(scope, jsii.String(id+"Permission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: f.FunctionArn(), Principal: jsii.String("logs.amazonaws.com"),
		SourceAccount: awscdk.Stack_Of(scope).Account(), SourceArn: logs.LogGroupArn(),
	})
	filter := awslogs.NewCfnSubscriptionFilter(scope, jsii.String(id+"Lines"), &awslogs.CfnSubscriptionFilterProps{
		LogGroupName: logs.LogGroupName(), DestinationArn: f.FunctionArn(), FilterPattern: pattern.LogPatternString(),
	})
	filter.AddDependency(permission) // CloudWatch Logs invokes the function when the filter is created, so the permission must exist before
}
