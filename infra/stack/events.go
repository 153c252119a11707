package stack

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// newEvents sets where notices and decision events go. For Kinesis it creates the stream.
func (s *stage) newEvents(p *ratelimit.LimitsProps) {
	if name := s.settings.Bus; name != "" {
		p.NoticeBus = awsevents.EventBus_FromEventBusName(s.stack, jsii.String("NoticeBus"), jsii.String(name))
	}
	switch s.settings.Sink {
	case "kinesis":
		stream := awskinesis.NewStream(s.stack, jsii.String("Decisions"), &awskinesis.StreamProps{
			StreamMode: awskinesis.StreamMode_ON_DEMAND, Encryption: awskinesis.StreamEncryption_MANAGED,
			RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
		})
		p.Events = &ratelimit.Events{Stream: stream, Sample: int(s.settings.Sample)}
		awscdk.NewCfnOutput(s.stack, jsii.String("Stream"), &awscdk.CfnOutputProps{Value: stream.StreamName()})
	case "kafka":
		k := s.settings.Kafka
		zones := []string{"a", "b", "c"}[:len(k.Subnets)] // the names of the zones are unknown here, so any distinct names will do
		p.Vpc = awsec2.Vpc_FromVpcAttributes(s.stack, jsii.String("Vpc"), &awsec2.VpcAttributes{
			VpcId: jsii.String(k.Vpc), AvailabilityZones: jsii.Strings(zones...), IsolatedSubnetIds: jsii.Strings(slices.Clone(k.Subnets)...),
		})
		awscdk.Annotations_Of(p.Vpc).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"), jsii.String("The stack changes no routes."))
		p.Events = &ratelimit.Events{Sample: int(s.settings.Sample), Kafka: &ratelimit.Kafka{
			Brokers: k.Brokers, Topic: k.Topic, Cluster: k.Cluster,
			SecurityGroup: awsec2.SecurityGroup_FromSecurityGroupId(s.stack, jsii.String("Brokers"), jsii.String(k.SecurityGroup), nil),
		}}
	}
}
