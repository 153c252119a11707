package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// newNotices lets a function send notices to [LimitsProps].NoticeBus. Functions that make decisions only log a
// notice, so they neither wait for the bus nor need a permission for it.
func (l *Limits) newNotices() {
	bus := l.props.NoticeBus
	allow(l.notices, contract.NoticeActions(), bus.EventBusArn())
	setVariables(l.notices, map[string]*string{contract.VariableNoticeBus: bus.EventBusName()})
}

// signsLines reports whether functions that make decisions sign lines, because another function acts on them.
func (p *LimitsProps) signsLines() bool { return p.NoticeBus != nil }

// forwardNotices sends the notices in a log group to the function that acts on them.
func (l *Limits) forwardNotices(scope constructs.Construct, id string, logs awslogs.ILogGroup) {
	if l.notices != nil {
		subscribe(scope, id, logs, l.notices, awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LineKind), jsii.String("="), jsii.String(contract.LineNotice)))
	}
}
