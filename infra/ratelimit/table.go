package ratelimit

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

type table struct{ awsdynamodb.Table }

// newTable creates the table of counters. It has no backup and is deleted with the stack, because
// counters are useless after their window.
func (l *Limits) newTable() state {
	return table{awsdynamodb.NewTable(l, jsii.String("Counters"), &awsdynamodb.TableProps{
		TableName:           l.props.countersName(),
		PartitionKey:        partitionKey(),
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		TimeToLiveAttribute: jsii.String(dynamostore.TTLAttribute),
		RemovalPolicy:       awscdk.RemovalPolicy_DESTROY,
		EncryptionKey:       l.props.Key,
	})}
}

func partitionKey() *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: jsii.String(contract.KeyAttribute), Type: awsdynamodb.AttributeType_STRING}
}

func (t table) access() access {
	a := access{variables: map[string]*string{contract.VariableStore: jsii.String(contract.StoreDynamoDB + *t.TableName())}}
	a.allow(dynamostore.Actions(), t.TableArn())
	return a
}
