package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
)

// TableInput returns the definition of a records table: on-demand capacity, a string key, and no time
// to live.
func TableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:   aws.String(name),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String(contract.KeyAttribute),
			AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(contract.KeyAttribute), KeyType: types.KeyTypeHash}},
	}
}

// Reader is the part of DynamoDB that reads an item. A *dynamodb.Client implements it.
type Reader interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
}

// Writer is the part of DynamoDB that writes an item. A *dynamodb.Client implements it.
type Writer interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
}

// Table reads single items for functions with eventual consistency. It is safe for concurrent use and
// caches nothing. Create it with NewTable.
type Table struct {
	api       Reader
	name      string
	retryable func(error) bool
}

// NewTable returns the table with this name. It repeats a failed read once, independently of the client's retries. A
// read is safe to repeat, unlike a charge. The second attempt is for the first read after Lambda thaws an
// environment: its connection may have died during the freeze.
func NewTable(api Reader, name string) *Table {
	return &Table{api, name, retry.NewStandard().IsErrorRetryable}
}

// These constants bound how long a request waits for a read. Each attempt has its own timeout. A dead
// connection never answers, so the second attempt must not share the timeout of the first.
const (
	readAttempts   = 2
	attemptTimeout = 300 * time.Millisecond
)

// Get reads the item with a partition key. It returns nil if there is none.
func (t *Table) Get(ctx context.Context, key string) (item Item, err error) {
	in := &dynamodb.GetItemInput{TableName: aws.String(t.name), Key: NewItem(key)}
	for range readAttempts {
		var again bool
		item, again, err = t.attempt(ctx, in)
		if !again {
			break
		}
	}
	return item, wrap(err)
}

// attempt reads the item once. again reports whether another attempt may succeed.
func (t *Table) attempt(ctx context.Context, in *dynamodb.GetItemInput) (item Item, again bool, err error) {
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	out, err := t.api.GetItem(attempt, in, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return nil, ctx.Err() == nil && (attempt.Err() != nil || t.retryable(err)), err
	}
	return out.Item, false, nil
}

// GetConsistent reads an item with strong consistency, for operators. It returns nil if there is none.
func GetConsistent(ctx context.Context, api Reader, table, key string) (Item, error) {
	out, err := api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: NewItem(key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, wrap(err)
	}
	return out.Item, nil
}

// Create writes an item unless its partition key already exists. It returns the item that the table
// contains afterwards. created reports whether this call wrote the item. Concurrent calls create one
// item.
func Create(ctx context.Context, api Writer, table string, item Item) (has Item, created bool, err error) {
	return PutIf(ctx, api, &dynamodb.PutItemInput{
		TableName: &table, Item: item,
		ConditionExpression: aws.String("attribute_not_exists(#pk)"), ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute},
	})
}

// PutIf writes an item if the condition of in holds. It returns the item that the table contains afterwards. written
// reports whether this call wrote the item.
func PutIf(ctx context.Context, api Writer, in *dynamodb.PutItemInput) (has Item, written bool, err error) {
	in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	_, err = api.PutItem(ctx, in)
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return failed.Item, false, nil
	}
	return in.Item, err == nil, wrap(err)
}

// wrap adds the name of the table to an error. It returns nil for nil.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("records table: %w", err)
}
