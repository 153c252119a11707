package ratelimit

import (
	_ "embed"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

//go:embed notices.js
var forwardNotices string

// newNotices creates the function that forwards notices from the logs to [LimitsProps].NoticeBus.
// Functions that make decisions only log a notice, so they neither wait for the bus nor need a
// permission for it.
func (l *Limits) newNotices() {
	bus := l.props.NoticeBus
	if bus == nil {
		return
	}
	logs := awslogs.NewLogGroup(l, jsii.String("NoticesLogs"), &awslogs.LogGroupProps{Retention: l.retention(), RemovalPolicy: awscdk.RemovalPolicy_DESTROY})
	role := awsiam.NewRole(l, jsii.String("NoticesRole"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)})
	l.notices = awslambda.NewFunction(l, jsii.String("Notices"), &awslambda.FunctionProps{
		Runtime: awslambda.Runtime_NODEJS_24_X(), Handler: jsii.String("index.handler"), Code: awslambda.Code_FromInline(jsii.String(forwardNotices)),
		Architecture: l.architecture(), Timeout: awscdk.Duration_Seconds(jsii.Number(handlerTimeout.Seconds())),
		Role: role, LogGroup: logs, LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		Environment: &map[string]*string{"BUS": bus.EventBusName()},
	})
	allow(l.notices, []string{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.LogGroupArn())
	allow(l.notices, []string{"events:PutEvents"}, bus.EventBusArn())
	l.NewAlarm(l, Alarm{"notices-failed", "Notices do not reach their event bus. Lambda repeats them twice; after that they are only in the logs. Look at the log of the function Notices.", LambdaMetric(l.notices, "Errors", "Sum"), 0, 1, 5})
}

// forward subscribes the function Notices to a log group.
func (l *Limits) forward(id string, logs awslogs.LogGroup) {
	if l.notices == nil {
		return
	}
	permission := awslambda.NewCfnPermission(l, jsii.String(id+"NoticesPermission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: l.notices.FunctionArn(), Principal: jsii.String("logs.amazonaws.com"),
		SourceAccount: awscdk.Stack_Of(l).Account(), SourceArn: logs.LogGroupArn(),
	})
	filter := awslogs.NewCfnSubscriptionFilter(l, jsii.String(id+"NoticeLines"), &awslogs.CfnSubscriptionFilterProps{
		LogGroupName: logs.LogGroupName(), DestinationArn: l.notices.FunctionArn(),
		FilterPattern: awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LineKind), jsii.String("="), jsii.String(contract.LineNotice)).LogPatternString(),
	})
	filter.AddDependency(permission) // CloudWatch Logs invokes the function when the filter is created, so the permission must exist before
}
