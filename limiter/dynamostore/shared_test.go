package dynamostore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// locked is a table in memory for concurrent use.
type locked struct {
	mu sync.Mutex
	memtable.Table
}

func (l *locked) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Table.UpdateItem(ctx, in, o...)
}

func (l *locked) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Table.GetItem(ctx, in, o...)
}

func (l *locked) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Table.DeleteItem(ctx, in, o...)
}

// The store passes the suite for limits that regions share, with a table in memory. TestStore has the same with DynamoDB
// Local.
func TestStore_shares(t *testing.T) {
	var table locked
	storetest.RunShares(t, storetest.Suite{
		Open: func(*testing.T) limiter.Store {
			return storetest.Must(dynamostore.NewBare(&table, dynamostore.Options{Table: "t", Namespace: "n", Margin: 50 * time.Millisecond}))
		},
		Margin: 50 * time.Millisecond,
	})
}
