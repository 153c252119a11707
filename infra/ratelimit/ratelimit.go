package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Limits are the limits of one deployment: make them with [NewLimits], and then [Limits.Attach]
// them to a REST API, or [Limits.Equip] a function with them. Like all constructs it is
// for one goroutine.
type Limits struct {
	scope      constructs.Construct
	props      LimitsProps
	state      state
	network    *network // nil: the functions are in none
	records    awsdynamodb.ITable
	authorizer awslambda.Function
	invoked    awslambda.IFunction // the authorizer, or its alias with provisioned concurrency
	metrics    Metrics
	agent      awslambda.ILayerVersion // of AppConfig; nil while nobody needs it

	attached    []*attachment
	equipped    []awslambda.Function // with the limiter in them
	logs        []awslogs.LogGroup   // of functions that decide
	refusedMost awscloudwatch.CfnInsightRule
}

// state is where the limits' state is kept.
type state interface {
	// equip gives a function the way to the state: its variables, permissions and network.
	equip(f awslambda.Function)
	// alarms adds the alarms on the store.
	alarms(l *Limits)
	// units returns what the store asks money for, and how much for a million in us-east-1, in
	// dollars.
	units() (awscloudwatch.IMetric, float64)
}

// New makes the limits in scope. It panics with an error that names every mistake in
// props, one line each, as constructs do.
func NewLimits(scope constructs.Construct, id *string, props *LimitsProps) *Limits {
	if err := props.check(); err != nil {
		panic(err)
	}
	l := &Limits{scope: constructs.NewConstruct(scope, id), props: *props}
	l.metrics = newMetrics(props.Namespace)
	l.records = l.newRecords()
	if props.inNetwork() {
		l.network = l.newNetwork()
	}
	if props.Store == ElastiCache {
		l.state = l.newCache()
	} else {
		l.state = l.newTable()
	}
	l.prepareEvents()
	l.authorizer = l.newAuthorizer()
	l.invoked = l.newAlias()
	if props.Tokens != nil && props.inNetwork() {
		l.newSigningKeys()
	}
	l.newAlarms()
	l.newRefusedMost()
	l.scope.Node().AddValidation(l)
	return l
}

// Records returns the table of API keys' records and of signing keys: what `weir keys` writes.
func (l *Limits) Records() awsdynamodb.ITable { return l.records }

// Authorizer returns the authorizer function.
func (l *Limits) Authorizer() awslambda.IFunction { return l.authorizer }

// Metrics returns the metrics that the functions of these limits write.
func (l *Limits) Metrics() Metrics { return l.metrics }

// StoreUnits returns what the store asks money for, as a metric, and what a million cost
// in us-east-1, in dollars, as far as is known in November 2026.
func (l *Limits) StoreUnits() (awscloudwatch.IMetric, float64) { return l.state.units() }

// newRecords makes the table of what operators write and functions only read. It is kept
// when the stack goes: nobody can make the keys of its callers again.
func (l *Limits) newRecords() awsdynamodb.ITable {
	if l.props.Records != nil {
		return l.props.Records
	}
	return awsdynamodb.NewTable(l.scope, jsii.String("Records"), &awsdynamodb.TableProps{
		PartitionKey:                     partitionKey(),
		BillingMode:                      awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               jsii.Bool(true),
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN,
	})
}
