// Package memtable has a DynamoDB table in memory. It evaluates the updates of a dynamostore.Store, so that
// tests and simulations of the store need no server.
package memtable

import (
	"context"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter/dynamostore"
)

// Item has the attributes of an item by name.
type Item = map[string]types.AttributeValue

// Table is a table with the key of a dynamostore.Store. It supports the part of DynamoDB's language that
// the Store uses, and panics on anything else. The zero value is an empty table. Its methods are safe for
// concurrent use.
type Table struct {
	// Items has the items by key. An update replaces an item and never modifies it, so an answer can
	// contain the item.
	Items map[string]Item

	mu sync.Mutex
}

var _ dynamostore.API = (*Table)(nil)

// Key returns the key of an item.
func Key(item Item) string {
	return item[dynamostore.KeyAttribute].(*types.AttributeValueMemberS).Value
}

// UpdateItem implements dynamostore.API. If the condition is true, the answer has the new item. If it is
// false, the error is a *types.ConditionalCheckFailedException with the item.
func (t *Table) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := Key(in.Key)
	item := t.Items[key]
	p := parser{item: item, names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
	if !p.holds(*in.ConditionExpression) {
		return nil, &types.ConditionalCheckFailedException{Item: item}
	}
	if item == nil {
		item = in.Key
	}
	if t.Items == nil {
		t.Items = map[string]Item{}
	}
	t.Items[key] = changed(item, p.changes(*in.UpdateExpression))
	return &dynamodb.UpdateItemOutput{Attributes: t.Items[key]}, nil
}

// GetItem implements dynamostore.API.
func (t *Table) GetItem(_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &dynamodb.GetItemOutput{Item: t.Items[Key(in.Key)]}, nil
}

// DeleteItem implements dynamostore.API. If the condition is false, the error is a
// *types.ConditionalCheckFailedException with the item.
func (t *Table) DeleteItem(_ context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
	error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := parser{item: t.Items[Key(in.Key)], names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues}
	if in.ConditionExpression != nil && !p.holds(*in.ConditionExpression) {
		return nil, &types.ConditionalCheckFailedException{Item: p.item}
	}
	delete(t.Items, Key(in.Key))
	return &dynamodb.DeleteItemOutput{}, nil
}

// Size returns the number of bytes of an item as DynamoDB counts them. Names and text count their bytes. A number
// counts one byte, and half a byte for each significant digit. A list counts three bytes, and one byte for each element.
func Size(item Item) (n int) {
	for name, value := range item {
		n += len(name) + size(value)
	}
	return n
}

func size(value types.AttributeValue) (n int) {
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		n = len(v.Value)
	case *types.AttributeValueMemberN:
		digits := strings.TrimPrefix(v.Value, "-")
		n = 1 + len(v.Value) - len(digits)
		for strings.HasSuffix(digits, "00") {
			digits = digits[:len(digits)-2]
		}
		if digits != "0" {
			n += (len(digits) + 1) / 2
		}
	case *types.AttributeValueMemberL:
		n = 3 + len(v.Value)
		for _, element := range v.Value {
			n += size(element)
		}
	case *types.AttributeValueMemberNS:
		for _, member := range v.Value {
			n += size(&types.AttributeValueMemberN{Value: member})
		}
	}
	return n
}
