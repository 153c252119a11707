// Package recordstest creates records tables on DynamoDB Local for tests.
package recordstest

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Calls records the operations of a client. The zero value is ready for use. It is safe for
// concurrent use.
type Calls struct {
	mu         sync.Mutex
	operations []string
	keys       []string
}

// Table returns a client of DynamoDB Local and the name of a new records table. The table is deleted
// when the test ends. Without a server Table skips the test. If c is not nil, c records the calls of the
// client.
func Table(t testing.TB, c *Calls) (client *dynamodb.Client, table string) {
	t.Helper()
	client, table = local(t), "weir-test-"+rand.Text()
	if _, err := client.CreateTable(t.Context(), records.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: aws.String(table)}); err != nil {
			t.Error(err)
		}
	})
	return c.Client(client), table
}

// local returns a client of DynamoDB Local. Without a server it skips the test.
func local(t testing.TB) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   patient{resilient.HTTPClient{Doer: awshttp.NewBuildableClient()}},
	})
}

// patient waits for each answer, however long it takes: a busy machine exceeds the timeouts of functions.
type patient struct{ resilient.HTTPClient }

func (p patient) Do(r *http.Request) (*http.Response, error) {
	return p.HTTPClient.Do(r.WithContext(context.WithoutCancel(r.Context())))
}

// Client returns a copy of base. c records the calls of the copy, but not the calls of base. A recorder
// of base does not record the copy. A nil c records nothing.
func (c *Calls) Client(base *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(base.Options(), func(o *dynamodb.Options) { o.APIOptions = nil }, func(o *dynamodb.Options) {
		if c != nil {
			o.APIOptions = append(o.APIOptions, c.install)
		}
	})
}

func (c *Calls) install(s *middleware.Stack) error {
	return s.Initialize.Add(middleware.InitializeMiddlewareFunc("calls", func(ctx context.Context, in middleware.InitializeInput,
		next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		c.record(ctx, in.Parameters)
		return next.HandleInitialize(ctx, in)
	}), middleware.After)
}

func (c *Calls) record(ctx context.Context, parameters any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := func(item records.Item) { c.keys = append(c.keys, item.Text(contract.KeyAttribute)) }
	operation := "dynamodb:" + awsmiddleware.GetOperationName(ctx)
	switch in := parameters.(type) {
	case *dynamodb.TransactWriteItemsInput: // a transaction needs the actions of its writes
		for _, w := range in.TransactItems {
			c.operations = append(c.operations, operationOf(w))
		}
		return
	case *dynamodb.PutItemInput:
		key(in.Item)
	case *dynamodb.GetItemInput:
		key(in.Key)
	}
	c.operations = append(c.operations, operation)
}

func operationOf(w types.TransactWriteItem) string {
	if w.Put != nil {
		return "dynamodb:PutItem"
	}
	return "dynamodb:DeleteItem"
}

// Keys returns the partition keys of the recorded GetItem and PutItem calls, in order.
func (c *Calls) Keys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.keys)
}

// Want reports an error unless the recorded calls used exactly these IAM actions.
func (c *Calls) Want(t testing.TB, actions []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	called := slices.Compact(slices.Sorted(slices.Values(c.operations)))
	if listed := slices.Sorted(slices.Values(actions)); !slices.Equal(called, listed) {
		t.Errorf("actions: got calls of %v, want %v", called, listed)
	}
}
