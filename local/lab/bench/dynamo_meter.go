package main

import (
	"context"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// meter is a dynamostore.API that counts requests to DynamoDB.
type meter struct {
	client   *dynamodb.Client
	requests atomic.Int64
}

// UpdateItem implements dynamostore.API.
func (m *meter) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	m.requests.Add(1)
	return m.client.UpdateItem(ctx, in, o...)
}

// PutItem puts an item. The contender that writes whole items calls it.
func (m *meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	m.requests.Add(1)
	return m.client.PutItem(ctx, in, o...)
}

// GetItem implements dynamostore.API.
func (m *meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	m.requests.Add(1)
	return m.client.GetItem(ctx, in, o...)
}

// DeleteItem implements dynamostore.API.
func (m *meter) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	m.requests.Add(1)
	return m.client.DeleteItem(ctx, in, o...)
}
