package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Kafka is a topic of an Amazon MSK cluster with IAM access, to which the function Log sends lines of decisions and
// notices. The brokers are in [LimitsProps].Vpc. All fields are required.
type Kafka struct {
	Brokers       string                // bootstrap brokers for IAM, as host:9098, separated by commas
	Topic         string                // name of an existing topic
	Cluster       string                // ARN of the cluster
	SecurityGroup awsec2.ISecurityGroup // security group of the brokers
}

// brokerPort is the port at which brokers of MSK in a VPC accept IAM.
const brokerPort = 9098

// openKafka opens the way from the functions' security group to the brokers.
func (l *Limits) openKafka() {
	group, port := l.props.Kafka.SecurityGroup, awsec2.Port_Tcp(jsii.Number(brokerPort))
	group.AddIngressRule(l.network.clients, port, jsii.String("Function that sends decisions"), jsii.Bool(false))
	l.network.clients.AddEgressRule(group, port, jsii.String("Brokers, for decisions"), jsii.Bool(false))
}

func (k *Kafka) access() access {
	a := access{variables: map[string]*string{}}
	a.set(map[string]string{contract.VariableKafkaBrokers: k.Brokers, contract.VariableKafkaTopic: k.Topic, contract.VariableKafkaIAM: "true"})
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
