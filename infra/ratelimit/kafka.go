package ratelimit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Kafka is a topic of an Amazon MSK cluster with IAM access, to which the function Log sends lines of decisions and
// notices from the VPC of the brokers. All fields are required.
type Kafka struct {
	Brokers       string   // bootstrap brokers for IAM, as host:9098, separated by commas
	Topic         string   // name of an existing topic
	Cluster       string   // ARN of the cluster
	Vpc           string   // ID of the VPC
	Subnets       []string // IDs of subnets with a route to DynamoDB, in two or three zones
	SecurityGroup string   // ID of the security group of the brokers
}

// brokerPort is the port at which brokers of MSK in a VPC accept IAM.
const brokerPort = 9098

var (
	validBroker  = regexp.MustCompile(fmt.Sprintf(`^[^:,\s]+:%d$`, brokerPort))
	validCluster = regexp.MustCompile(`^arn:[^:]+:kafka:[^:]*:[^:]*:cluster/[^/:]+/[^/:]+$`)
)

func (p *LimitsProps) checkKafka(want func(ok bool, format string, args ...any)) {
	k := p.Kafka
	if k == nil {
		return
	}
	want(!slices.Contains([]string{k.Brokers, k.Topic, k.Cluster, k.Vpc, k.SecurityGroup}, "") && len(k.Subnets) >= 2 && len(k.Subnets) <= 3,
		"Kafka: got %+v, want all its fields, and two or three subnets in different zones", *k)
	for broker := range strings.SplitSeq(k.Brokers, ",") {
		want(unresolved(k.Brokers) || validBroker.MatchString(strings.TrimSpace(broker)),
			"Kafka.Brokers: got %q, want host:%d, the port for IAM inside the VPC, which the security groups open", broker, brokerPort)
	}
	want(unresolved(k.Topic) || contract.IsName(k.Topic, 1, 249),
		"Kafka.Topic: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", k.Topic)
	want(unresolved(k.Cluster) || validCluster.MatchString(k.Cluster),
		"Kafka.Cluster: got %q, want an ARN such as arn:aws:kafka:eu-central-1:123456789012:cluster/name/id", k.Cluster)
	want(p.Vpc == nil && p.Zones == nil, "Vpc, Zones: want none with Kafka, which has the network")
}

// importVpc returns the VPC of the brokers.
func (k *Kafka) importVpc(scope constructs.Construct) awsec2.IVpc {
	vpc := awsec2.Vpc_FromVpcAttributes(scope, jsii.String("BrokersVpc"), &awsec2.VpcAttributes{
		VpcId: &k.Vpc, IsolatedSubnetIds: jsii.Strings(k.Subnets...),
		AvailabilityZones: jsii.Strings([]string{"a", "b", "c"}[:len(k.Subnets)]...), // any distinct names will do
	})
	awscdk.Annotations_Of(vpc).AcknowledgeWarning(jsii.String("@aws-cdk/aws-ec2:noSubnetRouteTableId"),
		jsii.String("The construct changes no routes."))
	return vpc
}

// openKafka opens the way from the functions' security group to the brokers.
func (l *Limits) openKafka() {
	group := awsec2.SecurityGroup_FromSecurityGroupId(l, jsii.String("Brokers"), &l.props.Kafka.SecurityGroup, nil)
	port := awsec2.Port_Tcp(jsii.Number(brokerPort))
	group.AddIngressRule(l.network.clients, port, jsii.String("Function that sends decisions"), jsii.Bool(false))
	l.network.clients.AddEgressRule(group, port, jsii.String("Brokers, for decisions"), jsii.Bool(false))
}

func (k *Kafka) access() access {
	a := access{variables: map[string]*string{contract.VariableKafkaBrokers: &k.Brokers, contract.VariableKafkaTopic: &k.Topic,
		contract.VariableKafkaIAM: jsii.String("true")}}
	a.allow(contract.KafkaClusterActions(), jsii.String(k.Cluster))
	a.allow(contract.KafkaTopicActions(), k.topicARN())
	return a
}

// topicARN returns arn:…:topic/NAME/ID/TOPIC for a cluster arn:…:cluster/NAME/ID.
func (k *Kafka) topicARN() *string {
	parts := awscdk.Fn_Split(jsii.String(":cluster/"), jsii.String(k.Cluster), jsii.Number(2))
	return awscdk.Fn_Join(jsii.String(""), &[]*string{
		awscdk.Fn_Select(jsii.Number(0), parts), jsii.String(":topic/"), awscdk.Fn_Select(jsii.Number(1), parts), jsii.String("/" + k.Topic),
	})
}
