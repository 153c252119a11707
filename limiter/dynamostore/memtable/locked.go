package memtable

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter/dynamostore"
)

// Locked is a Table that is safe for concurrent use. The zero value is an empty table.
type Locked struct {
	mu    sync.Mutex
	table Table
}

var _ dynamostore.API = (*Locked)(nil)

// UpdateItem implements dynamostore.API, as a Table does.
func (l *Locked) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.UpdateItem(ctx, in)
}

// GetItem implements dynamostore.API.
func (l *Locked) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.GetItem(ctx, in)
}

// DeleteItem implements dynamostore.API, as a Table does.
func (l *Locked) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.DeleteItem(ctx, in)
}
