package ratelimit

import (
	"cmp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Limits is the construct of one deployment's limits. Create it with [NewLimits]. Then call [Limits.Attach]
// for REST APIs, or [Limits.AddLayer] or [Limits.Equip] for functions. Like every construct, it must be used
// by one goroutine only.
type Limits struct {
	constructs.Construct

	props      LimitsProps
	state      state
	network    *network // nil if the functions are in no VPC
	records    awsdynamodb.ITable
	authorizer awslambda.Function
	metrics    Metrics
	published  awscdk.CustomResource // nil unless the deployment publishes the rules

	log awslambda.Function // behind the subscriptions of logs; nil without one

	attached []*attachment
	alarms   map[string]int         // number of alarms by name
	equipped []awslambda.Function   // functions that contain the limiter
	layer    awslambda.LayerVersion // nil until AddLayer or Layer is called
	layered  []awslambda.Function   // functions with the layer
	logs     []*string              // names of the log groups, created by this app, of functions that make decisions
	queries  []awslogs.CfnQueryDefinition
}

// state is the store of the counters: a table or a cache.
type state interface {
	access() access
	alarms(l *Limits)
}

// NewLimits creates the limits in scope. It panics if props has mistakes; the error has one line
// for each. Apply a permissions boundary to the result: awsiam.PermissionsBoundary_Of(limits).Apply(policy).
func NewLimits(scope constructs.Construct, id *string, props *LimitsProps) *Limits {
	l := &Limits{props: *props, alarms: map[string]int{}}
	props = &l.props
	if err := props.check(awscdk.Stack_Of(scope)); err != nil {
		panic(err)
	}
	l.props.LogRetention = cmp.Or(l.props.LogRetention, awslogs.RetentionDays_ONE_MONTH)
	l.props.Architecture = cmp.Or(l.props.Architecture, "arm64")
	constructs.NewConstruct_Override(l, scope, id)
	l.metrics = newMetrics(props.Namespace)
	l.records = l.newRecords()
	if props.hasNetwork() {
		l.network = l.newNetwork()
	}
	if props.Store == ElastiCache {
		l.state = l.newCache()
	} else {
		l.state = l.newTable()
	}
	l.newLog()
	l.authorizer = l.newAuthorizer()
	if props.Tokens != nil && props.inNetwork() {
		l.newSigningKeys()
	}
	l.newPublisher(scope)
	if props.PermissionsBoundary != nil {
		awsiam.PermissionsBoundary_Of(l).Apply(props.PermissionsBoundary)
	}
	l.newAlarms()
	l.saveQueries()
	l.Node().AddValidation(&validation{limits: l})
	return l
}

// Records returns the records table, which holds API keys, rules and signing keys. The
// commands `weir keys` and `weir rules` need its name.
func (l *Limits) Records() awsdynamodb.ITable { return l.records }

// Authorizer returns the authorizer function.
func (l *Limits) Authorizer() awslambda.IFunction { return l.authorizer }

// Metrics returns the metrics that the functions of these limits write.
func (l *Limits) Metrics() Metrics { return l.metrics }

// newRecords creates the records table, which operators write and functions read. It outlives the
// stack, because lost API keys cannot be restored.
func (l *Limits) newRecords() awsdynamodb.ITable {
	switch {
	case l.props.Records != "":
		return awsdynamodb.Table_FromTableName(l, jsii.String("Records"), &l.props.Records)
	case l.props.Regions != nil:
		return l.globalRecords()
	}
	return awsdynamodb.NewTable(l, jsii.String("Records"), &awsdynamodb.TableProps{
		PartitionKey:                     partitionKey(),
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               jsii.Bool(true),
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN,
		EncryptionKey:                    l.props.Key,
	})
}
