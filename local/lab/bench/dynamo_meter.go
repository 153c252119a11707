package main

import (
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// meter is a dynamostore.API that counts requests to DynamoDB and their write units.
type meter struct {
	client *dynamodb.Client

	mu       sync.Mutex
	requests int
	units    float64 // write units
}

func (m *meter) add(requests int, units float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests += requests
	m.units += units
}

// read returns the counts so far.
func (m *meter) read() (requests int, units float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests, m.units
}

// wrote counts a write. If the condition of a write fails, the answer does not contain the consumed
// capacity. DynamoDB bills such a write by the size of the item.
func (m *meter) wrote(c *types.ConsumedCapacity, err error) {
	var units float64
	if c != nil && c.CapacityUnits != nil {
		units = *c.CapacityUnits
	}
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		units = writeUnits(failed.Item)
	}
	m.add(1, units)
}

// UpdateItem implements dynamostore.API.
func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.UpdateItem(ctx, in, o...)
	if err != nil {
		m.wrote(nil, err)
		return nil, err
	}
	m.wrote(out.ConsumedCapacity, nil)
	return out, nil
}

// PutItem puts an item. The contender that writes whole items calls it.
func (m *meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.PutItem(ctx, in, o...)
	if err != nil {
		m.wrote(nil, err)
		return nil, err
	}
	m.wrote(out.ConsumedCapacity, nil)
	return out, nil
}

// GetItem implements dynamostore.API.
func (m *meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	m.add(1, 0)
	return m.client.GetItem(ctx, in, o...)
}

// DeleteItem implements dynamostore.API.
func (m *meter) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.client.DeleteItem(ctx, in, o...)
	if err != nil {
		m.wrote(nil, err)
		return nil, err
	}
	m.wrote(out.ConsumedCapacity, nil)
	return out, nil
}

// writeUnits returns the billed units of a write to item: one for each started KB.
func writeUnits(item map[string]types.AttributeValue) float64 {
	size := 0
	for name, v := range item {
		size += len(name) + sizeOf(v)
	}
	return float64(max(1, (size+1023)/1024))
}

// sizeOf returns the approximate size of a value, as DynamoDB documents it.
func sizeOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(v.Value)+1)/2 + 1
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberL:
		size := 3
		for _, e := range v.Value {
			size += 1 + sizeOf(e)
		}
		return size
	}
	return 1
}
