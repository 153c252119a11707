package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// newNotices lets a function send notices to [LimitsProps].NoticeBus. Functions that make decisions only log a
// notice, so they neither wait for the bus nor need a permission for it.
func (l *Limits) newNotices() {
	bus := l.props.NoticeBus
	if bus == nil {
		return
	}
	allow(l.outside, contract.NoticeActions(), bus.EventBusArn())
	setVariables(l.outside, map[string]*string{contract.VariableNoticeBus: bus.EventBusName()})
}

// signsLines reports whether functions that make decisions sign lines, because another function sends notices.
func (p *LimitsProps) signsLines() bool { return p.NoticeBus != nil }

// forwardLines sends the lines in a log group that a function signs to the function that acts on them.
func (l *Limits) forwardLines(scope constructs.Construct, id string, logs awslogs.ILogGroup) {
	if l.props.Kafka != nil {
		subscribe(scope, "Kafka"+id, logs, l.log, awslogs.FilterPattern_Exists(jsii.String("$."+contract.LineKind)))
	}
	if l.outside == nil {
		return
	}
	notices := awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LineKind), jsii.String("="), jsii.String(telemetry.LineNotice))
	subscribe(scope, id, logs, l.outside, notices)
}
