package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

func connect(t testing.TB, options ...func(*dynamodb.Options)) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
		HTTPClient:   resilient.HTTPClient{Doer: awshttp.NewBuildableClient()},
	}, options...)
}

func local(t testing.TB, options ...func(*dynamodb.Options)) (client *dynamodb.Client, table string) {
	t.Helper()
	client = connect(t, options...)
	table = "weir-test-" + rand.Text()
	ctx := context.Background()
	if _, err := client.CreateTable(ctx, dynamostore.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(table)}); err != nil {
			t.Error(err)
		}
	})
	return client, table
}

// compared is an API that makes each call in DynamoDB Local and in a memtable.Table, and compares the answers.
type compared struct {
	*dynamodb.Client
	t      *testing.T
	mu     sync.Mutex // gives the calls the same order in both tables
	table  memtable.Table
	failed int // number of updates whose condition was false
	large  int // number of updates that cost more than one write unit
}

func (c *compared) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	before := c.table.Items[memtable.Key(in.Key)]
	got, problem := c.table.UpdateItem(ctx, in)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	want, err := c.Client.UpdateItem(context.WithoutCancel(ctx), in, o...) // an update that is not answered may still be made
	refused, isRefused := errors.AsType[*types.ConditionalCheckFailedException](problem)
	failed, isFailed := errors.AsType[*types.ConditionalCheckFailedException](err)
	switch {
	case isRefused && isFailed:
		c.failed++
		c.compare(in, refused.Item, failed.Item)
	case problem == nil && err == nil:
		c.compare(in, got.Attributes, want.Attributes)
		units := (max(memtable.Size(before), memtable.Size(got.Attributes)) + 1023) / 1024
		if consumed := aws.ToFloat64(want.ConsumedCapacity.CapacityUnits); consumed != float64(units) {
			c.t.Errorf("%s: got %d write units, want %g as in DynamoDB Local", *in.UpdateExpression, units, consumed)
		}
		if units > 1 {
			c.large++
		}
	default:
		c.t.Errorf("%s if %s: got error %v, want %v as in DynamoDB Local", *in.UpdateExpression, *in.ConditionExpression, problem, err)
	}
	return want, err
}

func (c *compared) compare(in *dynamodb.UpdateItemInput, got, want memtable.Item) {
	if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
		c.t.Errorf("%s if %s: got item %v, want %v as in DynamoDB Local", *in.UpdateExpression, *in.ConditionExpression, got, want)
	}
}

func (c *compared) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	_, _ = c.table.DeleteItem(ctx, in)
	return c.Client.DeleteItem(context.WithoutCancel(ctx), in, o...)
}

// The store passes the whole suite and calls only the listed actions. The suite includes conversions,
// clamps and removals of limits. A table in memory gives the same answers as DynamoDB Local, and its items have
// the same size.
func TestStore(t *testing.T) {
	var o operations
	client, table := local(t)
	c := &compared{Client: dynamodb.New(client.Options(), o.install), t: t}
	storetest.Run(t, storetest.Suite{
		Open: func(*testing.T) limiter.Store {
			return storetest.Must(dynamostore.NewBare(c, dynamostore.Options{Table: table, Namespace: "test", Margin: 50 * time.Millisecond}))
		},
		Margin: 50 * time.Millisecond,
		Slow:   true,
	})
	t.Logf("%d items, %d false conditions, %d updates of more than one write unit", len(c.table.Items), c.failed, c.large)
	if c.failed == 0 || c.large == 0 {
		t.Errorf("updates: got %d with a false condition and %d of more than one write unit, want some of both", c.failed, c.large)
	}
	for _, action := range o.take() {
		if !slices.Contains(dynamostore.Actions(), action) && !slices.Contains(dynamostore.AdministrationActions(), action) {
			t.Errorf("got a call of %s, want only the listed actions", action)
		}
	}
}

func TestStore_linearizable(t *testing.T) {
	storetest.Linearizable(t, storetest.Linear{
		Place: func(t *testing.T) string {
			_, table := local(t)
			return table
		},
		Open: func(t *testing.T, table string) limiter.Store {
			return storetest.Must(dynamostore.NewBare(connect(t), dynamostore.Options{Table: table, Namespace: "linear", Margin: 50 * time.Millisecond}))
		},
		Margin:    50 * time.Millisecond,
		Processes: true,
		Releases:  true,
	})
}

// New makes a store resilient. The store knows the sizes of its items, for httplimit.FromDocument.
func TestNew(t *testing.T) {
	s, err := dynamostore.New(&dynamodb.Client{}, dynamostore.Options{Table: "t", Namespace: "n"})
	if err != nil || s.Timeout() != 100*time.Millisecond {
		t.Fatalf("got %v, error %v, want a store with a deadline of 100 ms", s, err)
	}
	if _, ok := s.Unwrap().(rules.Items); !ok {
		t.Errorf("got a %T without the sizes of items", s.Unwrap())
	}
	if _, err := dynamostore.New(nil, dynamostore.Options{}); err == nil {
		t.Error("without a client: got no error, want one")
	}
}

type refusing struct{}

func (refusing) Do(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// In a server, a goroutine looks whether the store works again. In AWS Lambda, nothing runs beside a request.
func TestOpen(t *testing.T) {
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{}, HTTPClient: refusing{}})
	charges := []limiter.Charge{{Subject: limiter.User("a"), Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}), Cost: 1}}
	for open, store := range map[bool]limiter.Store{
		true:  storetest.Must(dynamostore.New(client, dynamostore.Options{Table: "t", Namespace: "n"})),
		false: storetest.Must(dynamostore.Open(client, "t", "n")),
	} {
		synctest.Test(t, func(t *testing.T) {
			take := func() error {
				_, err := store.Take(t.Context(), algo.InstantOf(time.Now()), charges[0].Subject, charges, make([]algo.Result, 1))
				return err
			}
			for range resilient.DefaultFailures {
				if err := take(); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("got error %v, want %v", err, syscall.ECONNREFUSED)
				}
			}
			time.Sleep(resilient.DefaultPause + 1)
			if err := take(); errors.Is(err, limiter.ErrBreakerOpen) != open {
				t.Errorf("after the pause: got error %v, want %v: %t", err, limiter.ErrBreakerOpen, open)
			}
		})
	}
}
