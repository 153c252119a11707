package ratelimit

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// responseTypeField is the field of the access log with the type of a gateway response, such as AUTHORIZER_FAILURE.
const responseTypeField = "responseType"

// absent is the value that API Gateway logs for a variable without a value.
const absent = "-"

// settleTimeout is the timeout of the function Settle. One event can have thousands of log lines.
const settleTimeout = 30 * time.Second

// settling returns whether the rules need the function Settle, and whether it reads the access log.
// checkDeployment has found no mistakes before.
func (p *LimitsProps) settling() contract.Checked {
	if p.Settle {
		return contract.Checked{Settles: true, SettlesFromLog: true}
	}
	return p.checked()
}

// checked returns what the check of the rules found.
func (p *LimitsProps) checked() contract.Checked {
	document, err := os.ReadFile(p.Rules)
	if err != nil {
		return contract.Checked{}
	}
	// This result is cached: checkDeployment made the same call.
	result, _ := check(contract.Deployment{Variables: p.known(), Rules: document})
	return result
}

// settleBundle returns the bundle's name for the function Settle, which sends no decision events.
func (p *LimitsProps) settleBundle() string {
	return contract.Bundle(contract.Settle, p.Store == ElastiCache, false)
}

// newSettle creates the function Settle if a limit of the rules has "count", or if
// [LimitsProps].Settle is set. Of the records table, it can read only the keys of receipts.
func (l *Limits) newSettle() {
	needs := l.props.settling()
	if !needs.Settles {
		return
	}
	l.settlesFromLog = needs.SettlesFromLog
	f, done := l.newFunction("Settle", FunctionProps{
		Bundle: filepath.Join(l.props.Bundles, l.props.settleBundle()), Role: contract.Settle, Timeout: settleTimeout,
	}, "")
	defer done()
	store := l.storeAccess()
	l.permitAll(f, store)
	setVariables(f, store.variables)
	permit(f, l.record(contract.RecordActions(), contract.ReceiptKeysKey))
	setVariables(f, map[string]*string{
		contract.VariableNamespace: jsii.String(l.props.Namespace), contract.VariableRecordsTable: l.records.TableName(),
	})
	for _, a := range []Alarm{
		{"settle-failed", "The function Settle fails. Receipts are not settled, and their limits keep the reserve. Look at the store-* alarms, then at the log of the function. Lambda repeats the lines of an access log twice.", LambdaMetric(f, "Errors", "Sum"), 0, 2, 5},
		{"settle-throttled", "Lambda throttles the function Settle. Back ends that invoke it get an error, and their limits keep the reserve. Raise the account's concurrency.", LambdaMetric(f, "Throttles", "Sum"), 0, 2, 5},
		{"settlements-lost", "Settlements did not reach the store, so limits keep the reserve of requests: callers are refused too early. Look at the store-* alarms.", l.metrics.Metric(contract.MetricSettlementsLost, "Sum"), 0, 3, 5},
	} {
		l.NewAlarm(l, a)
	}
	l.settle = f
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
	return awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
		Grantee: to, Actions: jsii.Strings("lambda:InvokeFunction"), ResourceArns: &[]*string{l.settle.FunctionArn()},
	})
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
	stack := awscdk.Stack_Of(scope)
	permission := awslambda.NewCfnPermission(scope, jsii.String("SettlePermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: l.settle.FunctionArn(), Principal: jsii.String("logs.amazonaws.com"),
		SourceAccount: stack.Account(), SourceArn: logs.LogGroupArn(),
	})
	filter := awslogs.NewCfnSubscriptionFilter(scope, jsii.String("SettleLines"), &awslogs.CfnSubscriptionFilterProps{
		LogGroupName: logs.LogGroupName(), DestinationArn: l.settle.FunctionArn(),
		FilterPattern: awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LogReceipt), jsii.String("!="), jsii.String(absent)).LogPatternString(),
	})
	filter.AddDependency(permission) // CloudWatch Logs invokes the function when the filter is created, so the permission must exist before
}
