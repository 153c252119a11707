package ratelimit

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/redisstore"
)

// The cache listens at cachePort, and for reads at the next.
const (
	cachePort  = 6379
	cacheReads = cachePort + 1
	https      = 443
)

// What the cache grows to by itself, unless Props says otherwise, and so what it can cost
// at most. A caller takes some 100 bytes and a decision some 2 to 3 ECPUs.
const (
	cacheGigabytes = 5
	cacheECPUs     = 100_000
)

// cache is the state in ElastiCache Serverless for Valkey.
type cache struct {
	limits  *Limits
	vpc     awsec2.IVpc
	subnets *awsec2.SelectedSubnets
	clients awsec2.SecurityGroup // of functions that may connect
	cache   awselasticache.CfnServerlessCache
	user    awselasticache.CfnUser
}

func (l *Limits) newCache() state {
	c := &cache{limits: l, vpc: l.props.Vpc}
	if c.vpc == nil {
		c.vpc = l.newVpc()
	}
	c.subnets = subnets(c.vpc)
	c.clients = awsec2.NewSecurityGroup(l.scope, jsii.String("Clients"), &awsec2.SecurityGroupProps{
		Vpc: c.vpc, Description: jsii.String("Functions that decide"), AllowAllOutbound: jsii.Bool(false),
	})
	servers := awsec2.NewSecurityGroup(l.scope, jsii.String("Servers"), &awsec2.SecurityGroupProps{
		Vpc: c.vpc, Description: jsii.String("The cache of the limits"), AllowAllOutbound: jsii.Bool(false),
	})
	ports := awsec2.Port_TcpRange(jsii.Number(cachePort), jsii.Number(cacheReads))
	servers.AddIngressRule(c.clients, ports, jsii.String("Functions that decide"), nil)
	c.clients.AddEgressRule(servers, ports, jsii.String("The cache of the limits"), nil)
	// DynamoDB has no address range that a template knows: the way there is the VPC's
	// gateway endpoint, and without another there is nowhere else to go.
	c.clients.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(https)), jsii.String("DynamoDB, for records of API keys"), nil)
	c.newServers(servers)
	return c
}

// newVpc makes a network of two zones that leads nowhere but to DynamoDB, and there only
// to the records. A gateway endpoint costs nothing.
func (l *Limits) newVpc() awsec2.IVpc {
	vpc := awsec2.NewVpc(l.scope, jsii.String("Vpc"), &awsec2.VpcProps{
		MaxAzs:              jsii.Number(2),
		NatGateways:         jsii.Number(0),
		SubnetConfiguration: &[]*awsec2.SubnetConfiguration{{Name: jsii.String("Cache"), SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}},
	})
	endpoint := vpc.AddGatewayEndpoint(jsii.String("DynamoDB"), &awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_DYNAMODB()})
	endpoint.AddToPolicy(awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings(records.ReadActions()...),
		Resources:  &[]*string{l.records.TableArn()},
	}))
	Excuse(vpc, "AwsSolutions-VPC7", "The network leads nowhere but to the cache and to one table, both of which ask who calls.")
	return vpc
}

// subnets returns one in each zone that nobody outside can reach. A serverless cache has two
// or three.
func subnets(vpc awsec2.IVpc) *awsec2.SelectedSubnets {
	kind := awsec2.SubnetType_PRIVATE_WITH_EGRESS
	if len(*vpc.IsolatedSubnets()) > 0 {
		kind = awsec2.SubnetType_PRIVATE_ISOLATED
	} else if len(*vpc.PrivateSubnets()) == 0 {
		panic(fmt.Errorf("ratelimit: Vpc: %s has public subnets only, want isolated or private ones", *vpc.Node().Path()))
	}
	selected := vpc.SelectSubnets(&awsec2.SubnetSelection{SubnetType: kind, OnePerAz: jsii.Bool(true)})
	if n := len(*selected.SubnetIds); n < 2 || n > 3 {
		panic(fmt.Errorf("ratelimit: Vpc: %s has isolated or private subnets in %d zones, want 2 or 3, which a serverless cache has", *vpc.Node().Path(), n))
	}
	return selected
}

// newServers makes the cache and the one user that can do there what the store does, in
// the way in which it proves who it is: with the function's own role.
func (c *cache) newServers(group awsec2.SecurityGroup) {
	name := jsii.String("weir-" + c.limits.props.Namespace)
	c.user = awselasticache.NewCfnUser(c.limits.scope, jsii.String("User"), &awselasticache.CfnUserProps{
		Engine: jsii.String("valkey"), UserId: name, UserName: name, // IAM wants both the same
		AccessString:       jsii.String("on ~* resetchannels -@all +" + strings.Join(redisstore.Commands(), " +")),
		AuthenticationMode: map[string]string{"Type": "iam"}, // what the CDK has for it is written in lower case
	})
	users := awselasticache.NewCfnUserGroup(c.limits.scope, jsii.String("Users"), &awselasticache.CfnUserGroupProps{
		Engine: jsii.String("valkey"), UserGroupId: name, UserIds: &[]*string{c.user.Ref()},
	})
	c.cache = awselasticache.NewCfnServerlessCache(c.limits.scope, jsii.String("Cache"), &awselasticache.CfnServerlessCacheProps{
		Engine: jsii.String("valkey"), MajorEngineVersion: jsii.String("8"), ServerlessCacheName: name,
		Description:      jsii.String("State of the limits of " + c.limits.props.Namespace),
		SecurityGroupIds: &[]any{group.SecurityGroupId()},
		SubnetIds:        anyOf(*c.subnets.SubnetIds),
		UserGroupId:      users.Ref(),
		CacheUsageLimits: &awselasticache.CfnServerlessCache_CacheUsageLimitsProperty{
			DataStorage:   &awselasticache.CfnServerlessCache_DataStorageProperty{Unit: jsii.String("GB"), Maximum: jsii.Number(cmp.Or(c.limits.props.CacheGigabytes, cacheGigabytes))},
			EcpuPerSecond: &awselasticache.CfnServerlessCache_ECPUPerSecondProperty{Maximum: jsii.Number(cmp.Or(c.limits.props.CacheECPUs, cacheECPUs))},
		},
	})
	c.cache.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil) // counters: no final snapshot
}

func (c *cache) equip(f awslambda.Function) {
	url := awscdk.Fn_Join(jsii.String(""), &[]*string{
		jsii.String("rediss://"), c.cache.AttrEndpointAddress(), jsii.String(":"), c.cache.AttrEndpointPort(),
	})
	setVariables(f, map[string]*string{
		"STORE": jsii.String("redis"), "REDIS_URL": url, "REDIS_CLUSTER": jsii.String("true"),
		"REDIS_IAM_USER": c.user.UserId(), "REDIS_IAM_CACHE": c.cache.ServerlessCacheName(),
	})
	allow(f, []string{"elasticache:Connect"}, c.cache.AttrArn(), c.user.AttrArn())
	c.join(f)
}

// networkActions are what Lambda does in a function's name to put it into a VPC. They know
// no resource: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
var networkActions = []string{
	"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
	"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
}

// join puts a function into the network of the cache. Lambda does so with the function's
// own permissions; the function's code is denied them.
func (c *cache) join(f awslambda.Function) {
	allow(f, networkActions, jsii.String("*"))
	permit(f, &awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_DENY,
		Actions:   jsii.Strings(networkActions...),
		Resources: jsii.Strings("*"),
		// What the function calls has it, and what Lambda calls for it has not:
		// https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html
		Conditions: &map[string]any{"Null": map[string]string{"lambda:SourceFunctionArn": "false"}},
	})
	Excuse(f.Role(), "AwsSolutions-IAM5", "Lambda makes network interfaces in the function's name, and these actions know no resource; the function's own code is denied them.", "Resource::*")
	function := f.Node().DefaultChild().(awslambda.CfnFunction)
	switch {
	case function.VpcConfig() == nil:
		function.SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{
			SecurityGroupIds: &[]*string{c.clients.SecurityGroupId()}, SubnetIds: c.subnets.SubnetIds,
		})
	case c.limits.props.Vpc == nil:
		panic(fmt.Errorf("ratelimit: %s is in a network, and the cache in another: give the limits the function's, as Props.Vpc", *f.Node().Path()))
	default:
		f.Connections().AddSecurityGroup(c.clients)
	}
	// A function that is gone before its permissions can give its interfaces back.
	if policy := f.Role().Node().TryFindChild(jsii.String("DefaultPolicy")); policy != nil {
		function.Node().AddDependency(policy)
	}
}

func anyOf(texts []*string) *[]any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return &all
}
