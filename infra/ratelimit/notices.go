package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
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

// newList creates the list of callers whom distributions refuse, and lets a function write it.
func (l *Limits) newList() {
	if !l.props.lists() {
		return
	}
	l.list = awscloudfront.NewKeyValueStore(l, jsii.String("List"), &awscloudfront.KeyValueStoreProps{
		// Names are unique in an account, not in a region, and the CDK's name has no region.
		KeyValueStoreName: jsii.Sprintf("%s-%s", *awscdk.Stack_Of(l).Region(), *awscdk.Names_UniqueResourceName(l, &awscdk.UniqueResourceNameOptions{MaxLength: jsii.Number(48)})),
		Comment:           jsii.Sprintf("Weir %s: callers whom distributions refuse", l.props.Namespace),
	})
	l.changeList(l.outside, contract.ListActions())
}

func (l *Limits) changeList(f awslambda.Function, actions []string) {
	allow(f, actions, l.list.KeyValueStoreArn())
	setVariables(f, map[string]*string{contract.VariableEdgeList: l.list.KeyValueStoreArn()})
}

// List returns the ARN of the list of callers whom distributions refuse; nil without one. Operators give it to
// `weir reset` and `weir keys`.
func (l *Limits) List() *string {
	if l.list == nil {
		return nil
	}
	return l.list.KeyValueStoreArn()
}

// lists reports whether functions list callers for distributions: whether the viewer function writes the address.
func (p *LimitsProps) lists() bool { return p.ViewerAddress == contract.ViewerWeir }

// signsLines reports whether functions that make decisions sign lines, because another function acts on them.
func (p *LimitsProps) signsLines() bool { return p.NoticeBus != nil || p.lists() }

// forwardLines sends the lines in a log group that a function signs to the function that acts on them. A log group has
// at most two subscriptions, so there is one for all kinds.
func (l *Limits) forwardLines(scope constructs.Construct, id string, logs awslogs.ILogGroup) {
	if l.props.Kafka != nil {
		subscribe(scope, "Kafka"+id, logs, l.log, awslogs.FilterPattern_Exists(jsii.String("$."+contract.LineKind)))
	}
	if l.outside == nil {
		return
	}
	var kinds []awslogs.JsonPattern
	if l.props.NoticeBus != nil {
		kinds = append(kinds, ofKind(telemetry.LineNotice))
	}
	if l.props.lists() {
		kinds = append(kinds, ofKind(telemetry.LineEdge))
	}
	subscribe(scope, id, logs, l.outside, awslogs.FilterPattern_Any(kinds...))
}

func ofKind(kind string) awslogs.JsonPattern {
	return awslogs.FilterPattern_StringValue(jsii.String("$."+contract.LineKind), jsii.String("="), jsii.String(kind))
}
