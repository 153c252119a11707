package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
)

// subjectKeyKey is the partition key of the key of subject hashes, which is in keyAttribute.
const (
	subjectKeyKey = "subjectkey"
	keyAttribute  = "key"
)

// SubjectKey returns the key by which the hashes of callers in logs are made; nil if there is
// none.
func (t *Table) SubjectKey(ctx context.Context) ([]byte, error) {
	it, err := t.get(ctx, subjectKeyKey)
	if err != nil || it == nil {
		return nil, err
	}
	return it.subjectKey()
}

// SubjectKey returns the same key, and makes it if there is none; made reports that. Of two
// who make it at the same time one does.
func (t *Keys) SubjectKey(ctx context.Context) (key []byte, made bool, err error) {
	out, err := t.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.table, Key: keyOf(subjectKeyKey), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, false, fmt.Errorf("records table: %w", err)
	}
	if out.Item != nil {
		key, err = item(out.Item).subjectKey()
		return key, false, err
	}
	key = make([]byte, secretBytes)
	_, _ = rand.Read(key) // it never fails
	it := keyOf(subjectKeyKey)
	it[keyAttribute] = &types.AttributeValueMemberB{Value: key}
	_, err = t.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.table, Item: it,
		ConditionExpression: aws.String("attribute_not_exists(#pk)"), ExpressionAttributeNames: map[string]string{"#pk": contract.KeyAttribute},
	})
	if _, raced := errors.AsType[*types.ConditionalCheckFailedException](err); raced {
		return t.SubjectKey(ctx)
	}
	if err != nil {
		return nil, false, fmt.Errorf("records table: %w", err)
	}
	return key, true, nil
}

func (it item) subjectKey() ([]byte, error) {
	key, ok := it[keyAttribute].(*types.AttributeValueMemberB)
	if !ok || len(key.Value) < secretBytes {
		return nil, fmt.Errorf("records table: item %s: %s: want %d bytes or more", subjectKeyKey, keyAttribute, secretBytes)
	}
	return key.Value, nil
}
