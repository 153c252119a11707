package stack

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// newSinks sets where decisions and notices go.
func (s *stage) newSinks(p *ratelimit.LimitsProps) {
	k := s.settings.Kafka
	if k.Brokers == "" {
		return
	}
	zones := []string{"a", "b", "c"}[:len(k.Subnets)] // the names of the zones are unknown here, so any distinct names will do
	p.Vpc = awsec2.Vpc_FromVpcAttributes(s.stack, jsii.String("Vpc"), &awsec2.VpcAttributes{
		VpcId: jsii.String(k.Vpc), AvailabilityZones: jsii.Strings(zones...), IsolatedSubnetIds: jsii.Strings(slices.Clone(k.Subnets)...),
	})
	awscdk.Annotations_Of(p.Vpc).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"),
		jsii.String("The stack changes no routes."))
	p.Kafka = &ratelimit.Kafka{
		Brokers: k.Brokers, Topic: k.Topic, Cluster: k.Cluster,
		SecurityGroup: awsec2.SecurityGroup_FromSecurityGroupId(s.stack, jsii.String("Brokers"), jsii.String(k.SecurityGroup), nil),
	}
}
