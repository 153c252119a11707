package ratelimit

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// owns reports whether these limits own the records of all regions.
func (l *Limits) owns() bool {
	return l.props.Regions == nil || contract.RegionNames(l.props.Regions)[0] == *awscdk.Stack_Of(l).Region()
}

// publishes reports whether these limits publish the rules of all regions. They are the last ones that are deployed: old
// code of another region may reject a new document.
func (l *Limits) publishes() bool {
	names := contract.RegionNames(l.props.Regions)
	return l.props.Regions == nil || names[len(names)-1] == *awscdk.Stack_Of(l).Region()
}

// others returns the other regions that share limits.
func (l *Limits) others() []string {
	return slices.DeleteFunc(contract.RegionNames(l.props.Regions), func(region string) bool { return region == *awscdk.Stack_Of(l).Region() })
}

// countersName returns the name of the table of counters, which functions in the other regions know. It is nil without
// Regions: CloudFormation then chooses one.
func (p *LimitsProps) countersName() *string {
	if p.Regions == nil {
		return nil
	}
	return jsii.Sprintf("weir-%s-counters", p.Namespace)
}

// regionsAccess returns the access to the counters of the other regions, from which share of a limit moves. A debit is an
// UpdateItem. A GetItem opens the connection before it, and a region without a base share must read the item to know what it
// can give.
func (l *Limits) regionsAccess() (a access) {
	for _, region := range l.others() {
		a.allow(dynamostore.Actions(), l.tableIn(region, l.props.countersName()))
	}
	return a
}

// newKey returns a statement that allows to create a key in the records of the first region. Functions of all regions create
// keys there, so that no region replaces the key of another.
func (l *Limits) newKey(actions []string, key string) *awsiam.PolicyStatementProps {
	s := l.record(actions, key)
	if !l.owns() {
		s.Resources = &[]*string{l.tableIn(contract.RegionNames(l.props.Regions)[0], l.records.TableName())}
	}
	return s
}

// tableIn returns the ARN of a table in another region.
func (l *Limits) tableIn(region string, name *string) *string {
	return awscdk.Stack_Of(l).FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("dynamodb"), Region: jsii.String(region), Resource: jsii.String("table"), ResourceName: name,
	})
}

// globalRecords returns the records of all regions: a table that the first region creates with a replica in each other
// one.
func (l *Limits) globalRecords() awsdynamodb.ITable {
	name := jsii.Sprintf("weir-%s-records", l.props.Namespace)
	if !l.owns() {
		return awsdynamodb.Table_FromTableName(l, jsii.String("Records"), name)
	}
	var replicas []*awsdynamodb.ReplicaTableProps
	for _, region := range l.others() {
		replicas = append(replicas, &awsdynamodb.ReplicaTableProps{Region: jsii.String(region)})
	}
	// a resource cannot become another type under its ID
	return awsdynamodb.NewTableV2(l, jsii.String("GlobalRecords"), &awsdynamodb.TablePropsV2{
		TableName:                        name,
		PartitionKey:                     partitionKey(),
		Billing:                          awsdynamodb.Billing_OnDemand(nil),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: jsii.Bool(true)},
		DeletionProtection:               jsii.Bool(true),
		RemovalPolicy:                    awscdk.RemovalPolicy_RETAIN,
		Replicas:                         &replicas,
	})
}
