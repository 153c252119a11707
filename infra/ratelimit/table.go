package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// NewTableWrites is the number of write units per second that a new on-demand table accepts:
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/warm-throughput.html
const NewTableWrites = 4000

type table struct{ awsdynamodb.Table }

// newTable creates the table of counters. It has no backup and is deleted with the stack, because
// counters are useless after their window.
func (l *Limits) newTable() state {
	p := &awsdynamodb.TableProps{
		TableName:           l.props.countersName(),
		PartitionKey:        partitionKey(),
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		TimeToLiveAttribute: jsii.String(dynamostore.TTLAttribute),
		RemovalPolicy:       awscdk.RemovalPolicy_DESTROY,
		EncryptionKey:       l.props.Key,
	}
	if writes := l.props.WarmWrites; writes > 0 {
		p.WarmThroughput = &awsdynamodb.WarmThroughput{WriteUnitsPerSecond: jsii.Number(writes)}
	}
	return table{awsdynamodb.NewTable(l, jsii.String("Counters"), p)}
}

func partitionKey() *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(contract.KeyAttribute), Type: awsdynamodb.AttributeType_STRING}
}

func (t table) access() access {
	a := access{variables: map[string]*string{contract.VariableStore: jsii.String(contract.StoreDynamoDB),
		contract.VariableTable: t.TableName()}}
	a.allow(dynamostore.Actions(), t.TableArn())
	return a
}
