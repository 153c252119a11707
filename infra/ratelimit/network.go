package ratelimit

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

const https = 443

// network is the VPC of functions that call a service without a public address: a cache or the
// brokers of a cluster.
type network struct {
	vpc     awsec2.IVpc
	given   bool
	subnets *awsec2.SelectedSubnets
	clients awsec2.ISecurityGroup // security group of the functions
}

// inNetwork reports whether the functions that decide are in a VPC.
func (p *LimitsProps) inNetwork() bool { return p.Store == ElastiCache }

// hasNetwork reports whether any function is in a VPC: the function Log connects to Kafka.
func (p *LimitsProps) hasNetwork() bool { return p.inNetwork() || p.Kafka != nil }

// Network returns the subnets' ids and the security group of functions that make decisions. Both
// are nil if the functions are in no VPC.
func (l *Limits) Network() (subnets *[]*string, group *string) {
	if !l.props.inNetwork() {
		return nil, nil
	}
	return l.network.subnets.SubnetIds, l.network.clients.SecurityGroupId()
}

func (l *Limits) newNetwork() *network {
	n := &network{vpc: l.props.Vpc, given: l.props.Vpc != nil || l.props.Kafka != nil}
	switch {
	case l.props.Kafka != nil:
		n.vpc = l.props.Kafka.importVpc(l)
	case !n.given:
		n.vpc = l.newVpc()
	}
	n.subnets = subnets(n.vpc, l.props.Zones)
	n.clients = awsec2.NewSecurityGroup(l, jsii.String("Clients"), &awsec2.SecurityGroupProps{
		Vpc: n.vpc, Description: jsii.String("Functions that decide"), AllowAllOutbound: jsii.Bool(false),
	})
	// The egress rule allows all addresses, because a template cannot contain DynamoDB's addresses.
	// The VPC's routes limit them: if the gateway endpoint is the only route, only DynamoDB is
	// reachable.
	n.clients.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(https)), jsii.String("DynamoDB, for records of API keys"), nil)
	return n
}

// newVpc creates a VPC whose only route leads to DynamoDB, through the free gateway endpoint. It
// has two zones, or the zones of LimitsProps.Zones.
func (l *Limits) newVpc() awsec2.IVpc {
	p := &awsec2.VpcProps{
		NatGateways:         jsii.Number(0),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("Cache"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}},
	}
	if zones := l.props.Zones; zones != nil {
		p.AvailabilityZones = jsii.Strings(zones...)
	} else {
		p.MaxAzs = jsii.Number(2)
	}
	vpc := awsec2.NewVpc(l, jsii.String("Vpc"), p)
	endpoint := vpc.AddGatewayEndpoint(jsii.String("DynamoDB"),
		&awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()})
	statements := []*awsiam.PolicyStatementProps{
		l.record(contract.RecordActions(), l.props.recordKeys()...),
		l.record(contract.CreateActions(), contract.SubjectKeyKey),
	}
	if l.props.reporting().Counts {
		statements = append(statements, l.record(contract.CreateActions(), contract.MACKeyKey))
	}
	for _, statement := range statements {
		statement.Principals = &[]awsiam.IPrincipal{awsiam.NewStarPrincipal()}
		endpoint.AddToPolicy(awsiam.NewPolicyStatement(statement))
	}
	return vpc
}

// subnets returns one isolated or private subnet per zone, in zones if that is not nil. A
// serverless cache needs two or three.
func subnets(vpc awsec2.IVpc, zones []string) *awsec2.SelectedSubnets {
	kind := awsec2.SubnetType_PRIVATE_WITH_EGRESS
	if len(*vpc.IsolatedSubnets()) > 0 {
		kind = awsec2.SubnetType_PRIVATE_ISOLATED
	}
	p := &awsec2.SubnetSelection{SubnetType: kind, OnePerAz: jsii.Bool(true)}
	if zones != nil {
		p.AvailabilityZones = jsii.Strings(zones...)
	}
	selected := vpc.SelectSubnets(p)
	list := *awscdk.Token_IsUnresolved(selected.SubnetIds) // the ids are one parameter, so their number is unknown here
	if n := len(*selected.SubnetIds); !list && (n < 2 || n > 3) {
		panic(fmt.Errorf("ratelimit: Vpc: %s has isolated or private subnets in %d zones, want 2 or 3, which a serverless cache needs; choose "+
			"them with Zones", *vpc.Node().Path(), n))
	}
	return selected
}

// networkActions are the actions with which Lambda connects a function to a VPC, with the
// function's role. IAM cannot restrict them to a resource:
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
var networkActions = []string{
	"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
	"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
}

// access allows Lambda to connect a function to the VPC with the function's role, and denies the same actions to the function's code.
func (n *network) access() access {
	a := access{network: n}
	a.allow(networkActions, jsii.String("*"))
	a.permit(&awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_DENY,
		Actions:   jsii.Strings(networkActions...),
		Resources: jsii.Strings("*"),
		// Only calls by the function's code have this condition key:
		// https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html
		Conditions: &map[string]any{"Null": map[string]string{"lambda:SourceFunctionArn": "false"}},
	})
	return a
}

func (n *network) join(f awslambda.Function) {
	function := f.Node().DefaultChild().(awslambda.CfnFunction)
	switch {
	case function.VpcConfig() == nil:
		function.SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{
			SecurityGroupIds: &[]*string{n.clients.SecurityGroupId()}, SubnetIds: n.subnets.SubnetIds,
		})
	case !n.given:
		panic(fmt.Errorf("ratelimit: %s is in another network than the limits; set LimitsProps.Vpc to the network of the function",
			*f.Node().Path()))
	default:
		f.Connections().AddSecurityGroup(n.clients)
	}
	// CloudFormation must delete the function before its policy: Lambda needs the permissions to
	// delete the network interfaces.
	if policy := f.Role().Node().TryFindChild(jsii.String("DefaultPolicy")); policy != nil {
		function.Node().AddDependency(policy)
	}
}
