package ratelimit

import (
	"errors"
	"os"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
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

// settling returns whether the rules need the function Log, and whether it reads the access log.
// checkDeployment has found no mistakes before.
func (p *LimitsProps) settling() boot.Checked {
	if p.Settle {
		return boot.Checked{Settles: true, SettlesFromLog: true}
	}
	return p.checked()
}

// checked returns what the check of the rules found.
func (p *LimitsProps) checked() boot.Checked {
	document, err := os.ReadFile(p.Rules)
	if err != nil {
		return boot.Checked{}
	}
	return boot.Check(p.known(), document)
}

// logFunctions returns whether a function Log needs what the functions that decide reach, and whether one calls services
// outside a network.
func (p *LimitsProps) logFunctions() (inside, outside bool) {
	return p.settling().Settles || p.Kafka != nil, p.signsLines()
}

// newLog creates the function Log behind the subscriptions of logs. It settles receipts if a limit of the
// rules has "count", or if [LimitsProps].Settle is set, sends decisions to [LimitsProps].Kafka and notices to
// [LimitsProps].NoticeBus. A function in the network does not reach the bus, so there a second function sends them.
func (l *Limits) newLog() {
	inside, outside := l.props.logFunctions()
	none := func() access {
		return access{variables: map[string]*string{contract.VariableStore: jsii.String(contract.StoreMemory)}}
	}
	if inside {
		counters := none()
		if l.props.settling().Settles {
			counters = l.state.access()
		}
		if l.network != nil {
			counters.add(networkAccess())
		}
		if l.props.Kafka != nil {
			l.openKafka()
			counters.add(l.props.Kafka.access())
		}
		l.log = l.newLogFunction("Log", counters)
		if l.network != nil {
			l.network.join(l.log)
		}
	}
	if checked := l.props.settling(); checked.Settles {
		l.settlesFromLog, l.settle = checked.SettlesFromLog, l.log
		l.NewAlarm(l, Alarm{"settlements-lost", "Settlements did not reach the store, so limits keep the reserve of requests: callers are refused too early. Look at the store-* alarms.", l.metrics.Metric(telemetry.SettlementsLost, "Sum"), 0, 3, 5})
	}
	switch {
	case !outside:
		return
	case l.log == nil:
		l.outside = l.newLogFunction("Log", none())
	case l.network != nil:
		l.outside = l.newLogFunction("Notices", none())
	default:
		l.outside = l.log
	}
	l.newNotices()
}

// newLogFunction creates a function with the access to the counters. Of the records table, it can read only the keys of
// receipts.
func (l *Limits) newLogFunction(id string, counters access) awslambda.Function {
	f, done := l.newFunction(id, FunctionProps{Bundle: l.Bundle(contract.Log), Role: contract.Log, Timeout: logTimeout}, "")
	defer done()
	l.measured = append(l.measured, f)
	for _, statement := range counters.statements {
		permit(f, statement)
	}
	setVariables(f, counters.variables)
	permit(f, l.record(contract.RecordActions(), contract.ReceiptKeysKey))
	setVariables(f, map[string]*string{
		contract.VariableNamespace: jsii.String(l.props.Namespace), contract.VariableRecordsTable: l.records.TableName(),
	})
	l.addAlarms(
		Alarm{"log-failed", "The function Log fails. Receipts are not settled, and their limits keep the reserve; decisions do not reach Kafka, and notices do not reach their event bus. Look at the store-* alarms, then at the log of the function. Lambda repeats lines of a log twice.", LambdaMetric(f, "Errors", "Sum"), 0, 2, 5},
		Alarm{"log-throttled", "Lambda throttles the function Log. Back ends that invoke it get an error, and their limits keep the reserve. Raise the account's concurrency.", LambdaMetric(f, "Throttles", "Sum"), 0, 2, 5},
	)
	return f
}

// SettleFunction returns the function that settles receipts, for back ends of a REST API. It is nil
// if every limit of the rules counts requests.
func (l *Limits) SettleFunction() awslambda.IFunction {
	if l.settle == nil {
		return nil
	}
	return l.settle
}

// GrantSettle permits a back end to invoke the function that settles receipts. It panics if
// SettleFunction returns nil.
func (l *Limits) GrantSettle(to awsiam.IGrantable) awsiam.Grant {
	if l.settle == nil {
		panic(errors.New("ratelimit: GrantSettle: every limit of the rules counts requests, so nothing settles; remove the call, or add a limit with count"))
	}
	return grant(to, []string{"lambda:InvokeFunction"}, l.settle.FunctionArn(), nil)
}

// AccessLogFields returns the fields that the JSON access log of a REST API's stage needs for
// [Limits.WatchAccessLog] and [Limits.SettleFromLog]. Key: field; value: variable of API Gateway.
func (l *Limits) AccessLogFields() map[string]string {
	fields := map[string]string{responseTypeField: "$context.error.responseType"}
	if l.settlesFromLog {
		fields[contract.LogReceipt] = "$context.authorizer." + contract.KeyReceipt
		fields[contract.LogStatus], fields[contract.LogLength] = "$context.status", "$context.responseLength"
	}
	return fields
}

// SettleFromLog settles limits that count failures, bytes or concurrent requests from a REST API's
// access log, so that back ends need no code for them. The log must be JSON with
// [Limits.AccessLogFields]. If no limit is settled from the log, it does nothing.
func (l *Limits) SettleFromLog(logs awslogs.ILogGroup) {
	if !l.settlesFromLog {
		return
	}
	scope, ok := logs.(constructs.Construct)
	if !ok { // an imported log group has no such resource in this app
		scope = constructs.NewConstruct(l, jsii.String("Settle"+*logs.Node().Id()))
	}
	subscribe(scope, "Settle", logs, l.settle, awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LogReceipt), jsii.String("!="), jsii.String(absent)))
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
