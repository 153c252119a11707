package ratelimit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Events is the destination of decision events. Set either Stream or Kafka.
type Events struct {
	// Stream is a Kinesis data stream. Functions in a VPC need a route to it; a VPC that the
	// construct creates has an endpoint for it.
	Stream awskinesis.IStream
	// Kafka is a topic of a cluster.
	Kafka *Kafka
	// Sample is how many allowed requests one event stands for. 0 means 100: an event for 1 % of
	// the allowed requests.
	Sample int
}

// Kafka is a topic of an Amazon MSK cluster with IAM access. The brokers are in [LimitsProps].Vpc.
// All fields are required.
type Kafka struct {
	Brokers       string                // bootstrap brokers for IAM, as host:port, separated by commas
	Topic         string                // name of an existing topic
	Cluster       string                // ARN of the cluster
	SecurityGroup awsec2.ISecurityGroup // security group of the brokers
}

func (p *LimitsProps) checkEvents(want func(ok bool, format string, args ...any)) {
	e := p.Events
	if e == nil {
		return
	}
	want((e.Stream == nil) != (e.Kafka == nil), "Events: want either Stream or Kafka")
	want(e.Sample >= 0 && e.Sample <= contract.MaxEventsSample, "Events.Sample: got %d, want 1 to %d, or 0 for 100", e.Sample, contract.MaxEventsSample)
	k := e.Kafka
	if k == nil {
		return
	}
	want(p.Vpc != nil, "Vpc: required with Events.Kafka: the brokers' network")
	want(k.SecurityGroup != nil, "Events.Kafka.SecurityGroup: required: the brokers' security group, which must admit the functions")
	want(unresolved(k.Cluster) || strings.HasPrefix(k.Cluster, "arn:") && strings.Count(k.Cluster, ":cluster/") == 1, "Events.Kafka.Cluster: got %q, want an ARN such as arn:aws:kafka:eu-west-1:123456789012:cluster/name/id", k.Cluster)
}

func (e *Events) variables() map[string]string {
	if e == nil {
		return nil
	}
	v := map[string]string{}
	if e.Sample != 0 {
		v[contract.VariableEventsSample] = strconv.Itoa(e.Sample)
	}
	switch {
	case e.Kafka != nil:
		v[contract.VariableEvents], v[contract.VariableKafkaBrokers], v[contract.VariableKafkaTopic], v[contract.VariableKafkaIAM] = contract.EventsKafka, e.Kafka.Brokers, e.Kafka.Topic, "true"
	case e.Stream != nil:
		v[contract.VariableEvents], v[contract.VariableKinesisStream] = contract.EventsKinesis, *e.Stream.StreamName()
	}
	return v
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

// prepareEvents opens the VPC to the destination of events and adds an alarm.
func (l *Limits) prepareEvents() {
	e := l.props.Events
	if e == nil {
		return
	}
	if e.Kafka != nil {
		for _, port := range e.Kafka.ports() {
			port := awsec2.Port_Tcp(jsii.Number(port))
			e.Kafka.SecurityGroup.AddIngressRule(l.network.clients, port, jsii.String("Functions that decide"), jsii.Bool(false))
			l.network.clients.AddEgressRule(e.Kafka.SecurityGroup, port, jsii.String("Brokers, for events"), jsii.Bool(false))
		}
	} else if l.network != nil && !l.network.given {
		l.newStreamEndpoint(e.Stream)
	}
	l.NewAlarm(l, Alarm{"events-dropped", "Decision events do not reach their broker. No request fails because of it. The broker is down, slow or throttling, or rejects the functions: see 'events dropped' in their logs.", l.metrics.Metric(telemetry.EventsDropped, "Sum"), 0, 3, 5})
}

// newStreamEndpoint adds a VPC endpoint that reaches only this stream.
func (l *Limits) newStreamEndpoint(stream awskinesis.IStream) {
	group := awsec2.NewSecurityGroup(l, jsii.String("StreamEndpoint"), &awsec2.SecurityGroupProps{
		Vpc: l.network.vpc, Description: jsii.String("The way to the stream of events"), AllowAllOutbound: jsii.Bool(false),
	})
	group.AddIngressRule(l.network.clients, awsec2.Port_Tcp(jsii.Number(https)), jsii.String("Functions that decide"), nil)
	endpoint := l.network.vpc.AddInterfaceEndpoint(jsii.String("Kinesis"), &awsec2.InterfaceVpcEndpointOptions{
		Service: awsec2.InterfaceVpcEndpointAwsService_KINESIS_STREAMS(), Open: jsii.Bool(false),
		SecurityGroups: &[]awsec2.ISecurityGroup{group},
	})
	endpoint.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewStarPrincipal()},
		Actions:    jsii.Strings(contract.KinesisActions()...),
		Resources:  &[]*string{stream.StreamArn()},
	}))
}

func (e *Events) access() access {
	a := access{variables: map[string]*string{}}
	if e == nil {
		return a
	}
	a.set(e.variables())
	if k := e.Kafka; k != nil {
		a.allow(contract.KafkaClusterActions(), jsii.String(k.Cluster))
		a.allow(contract.KafkaTopicActions(), k.topicARN())
		return a
	}
	a.allow(contract.KinesisActions(), e.Stream.StreamArn())
	if key := e.Stream.EncryptionKey(); key != nil {
		a.allow([]string{"kms:GenerateDataKey"}, key.KeyArn()) // Kinesis encrypts with the writer's permissions
	}
	return a
}

// topicARN returns arn:…:topic/NAME/ID/TOPIC for a cluster arn:…:cluster/NAME/ID.
func (k *Kafka) topicARN() *string {
	parts := awscdk.Fn_Split(jsii.String(":cluster/"), jsii.String(k.Cluster), jsii.Number(2))
	return awscdk.Fn_Join(jsii.String(""), &[]*string{
		awscdk.Fn_Select(jsii.Number(0), parts), jsii.String(":topic/"), awscdk.Fn_Select(jsii.Number(1), parts), jsii.String("/" + k.Topic),
	})
}
