package ratelimit

import (
	"cmp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
)

// Ports of the cache: for all commands, and for reads from replicas.
const (
	cachePort  = 6379
	cacheReads = cachePort + 1
)

// Default bounds of the cache's size, which bound its cost. A caller takes about 100 bytes; a
// decision takes 2 to 3 ECPUs.
const (
	cacheGigabytes = 5
	cacheECPUs     = 100_000
)

type cache struct {
	limits *Limits
	cache  awselasticache.CfnServerlessCache
	user   awselasticache.CfnUser
}

func (l *Limits) newCache() state {
	c, n := &cache{limits: l}, l.network
	servers := awsec2.NewSecurityGroup(l, jsii.String("Servers"), &awsec2.SecurityGroupProps{
		Vpc: n.vpc, Description: jsii.String("The cache of the limits"), AllowAllOutbound: jsii.Bool(false),
	})
	ports := awsec2.Port_TcpRange(jsii.Number(cachePort), jsii.Number(cacheReads))
	servers.AddIngressRule(n.clients, ports, jsii.String("Functions that decide"), nil)
	n.clients.AddEgressRule(servers, ports, jsii.String("The cache of the limits"), nil)
	c.newServers(servers)
	return c
}

// newServers creates the cache and its only user. Functions log in as this user with their IAM
// role. The user may call only the commands that the store uses.
func (c *cache) newServers(group awsec2.SecurityGroup) {
	name := jsii.String("weir-" + c.limits.props.Namespace)
	c.user = awselasticache.NewCfnUser(c.limits, jsii.String("User"), &awselasticache.CfnUserProps{
		Engine: jsii.String("valkey"), UserId: name, UserName: name, // IAM login requires UserId to equal UserName
		AccessString:       jsii.String(contract.CacheAccess),
		AuthenticationMode: map[string]string{"Type": "iam"}, // a map, because the CDK's type would write "type" instead of "Type"
	})
	// In a user group of engine redis, a user named default must exist for clients that do not log
	// in. A group of engine valkey has no such user, so every client must log in:
	// https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Clusters.RBAC.html
	users := awselasticache.NewCfnUserGroup(c.limits, jsii.String("Users"), &awselasticache.CfnUserGroupProps{
		Engine: jsii.String("valkey"), UserGroupId: name, UserIds: &[]*string{c.user.Ref()},
	})
	c.cache = awselasticache.NewCfnServerlessCache(c.limits, jsii.String("Cache"), &awselasticache.CfnServerlessCacheProps{
		Engine: jsii.String("valkey"), MajorEngineVersion: jsii.String("8"), ServerlessCacheName: name,
		Description:      jsii.String("State of the limits of " + c.limits.props.Namespace),
		SecurityGroupIds: &[]any{group.SecurityGroupId()},
		UserGroupId:      users.Ref(),
		CacheUsageLimits: &awselasticache.CfnServerlessCache_CacheUsageLimitsProperty{
			DataStorage: &awselasticache.CfnServerlessCache_DataStorageProperty{Unit: jsii.String("GB"),
				Maximum: jsii.Number(cmp.Or(c.limits.props.CacheGigabytes, cacheGigabytes))},
			EcpuPerSecond: &awselasticache.CfnServerlessCache_ECPUPerSecondProperty{Maximum: jsii.Number(cmp.Or(c.limits.props.CacheECPUs,
				cacheECPUs))},
		},
	})
	c.cache.AddPropertyOverride(jsii.String("SubnetIds"), c.limits.network.subnets.SubnetIds)
	// Delete the cache without a snapshot: counters are useless after their window.
	c.cache.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
}

func (c *cache) access() access {
	url := awscdk.Fn_Join(jsii.String(""), &[]*string{
		jsii.String("rediss://"), c.user.UserId(), jsii.String("@"), c.cache.AttrEndpointAddress(), jsii.String(":"),
		c.cache.AttrEndpointPort(), jsii.String("?iam_cache="), c.cache.ServerlessCacheName(),
	})
	a := access{variables: map[string]*string{contract.VariableStore: url}}
	a.allow(contract.CacheActions(), c.cache.AttrArn(), c.user.AttrArn())
	return a
}
