package ratelimit

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Kafka is a topic of an Amazon MSK cluster with IAM access, to which the function Log sends lines of decisions and
// notices. The brokers are in [LimitsProps].Vpc. All fields are required.
type Kafka struct {
	Brokers       string                // bootstrap brokers for IAM, as host:port, separated by commas
	Topic         string                // name of an existing topic
	Cluster       string                // ARN of the cluster
	SecurityGroup awsec2.ISecurityGroup // security group of the brokers
}

var validBroker = regexp.MustCompile(`^[^:,]+:[0-9]{1,5}$`)

func (p *LimitsProps) checkKafka(want func(ok bool, format string, args ...any)) {
	k := p.Kafka
	if k == nil {
		return
	}
	for broker := range strings.SplitSeq(k.Brokers, ",") {
		want(unresolved(k.Brokers) || validBroker.MatchString(broker), "Kafka.Brokers: got %q, want host:port", broker)
	}
	want(unresolved(k.Topic) || contract.IsName(k.Topic, 1, 249),
		"Kafka.Topic: got %q, want the name of a topic: 1 to 249 letters, digits, _, . and -", k.Topic)
	want(p.Vpc != nil, "Vpc: required with Kafka: the brokers' network")
	want(k.SecurityGroup != nil, "Kafka.SecurityGroup: required: the brokers' security group, which must admit the function")
	want(unresolved(k.Cluster) || strings.HasPrefix(k.Cluster, "arn:") && strings.Count(k.Cluster, ":cluster/") == 1,
		"Kafka.Cluster: got %q, want an ARN such as arn:aws:kafka:eu-west-1:123456789012:cluster/name/id", k.Cluster)
}

func (k *Kafka) ports() (ports []float64) {
	const iam = 9098 // port of brokers with IAM; used if the list of brokers is a token
	if unresolved(k.Brokers) {
		return []float64{iam}
	}
	for broker := range strings.SplitSeq(k.Brokers, ",") {
		if n, err := strconv.ParseUint(broker[strings.LastIndexByte(broker, ':')+1:], 10, 16); err == nil && !slices.Contains(ports, float64(n)) {
			ports = append(ports, float64(n))
		}
	}
	return ports
}

// openKafka opens the way from the functions' security group to the brokers.
func (l *Limits) openKafka() {
	k := l.props.Kafka
	for _, port := range k.ports() {
		port := awsec2.Port_Tcp(jsii.Number(port))
		k.SecurityGroup.AddIngressRule(l.network.clients, port, jsii.String("Function that sends decisions"), jsii.Bool(false))
		l.network.clients.AddEgressRule(k.SecurityGroup, port, jsii.String("Brokers, for decisions"), jsii.Bool(false))
	}
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
