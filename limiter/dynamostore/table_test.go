package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"sync"
	"testing"
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

// onServer returns a table in DynamoDB Local. The tests that need a server are those of concurrent processes, of the client,
// and of the errors of a table.
func onServer(t testing.TB, options ...func(*dynamodb.Options)) (client *dynamodb.Client, table string) {
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

// table is a table in memory for concurrent use, and a store on it. If DynamoDB Local runs, the table makes the first call of
// each form there too, on the same item, and compares the answers. Calls of one form have the same result, and differ only in
// the names of attributes and in values.
type table struct {
	*dynamostore.Store
	t      testing.TB
	mu     sync.Mutex
	Table  memtable.Table
	client *dynamodb.Client // nil without DynamoDB Local
	name   string
	forms  map[string]int // number of calls by form
	failed int            // number of compared updates whose condition was false
	large  int            // number of compared updates that cost more than one write unit
}

func newTable(t testing.TB) *table {
	t.Helper()
	c := &table{t: t, forms: map[string]int{}}
	if os.Getenv("DYNAMODB_ENDPOINT") != "" {
		c.client, c.name = onServer(t)
	}
	c.Store = open(c)
	return c
}

// open returns the store of one more process on a table in memory.
func open(api dynamostore.API) *dynamostore.Store {
	return storetest.Must(dynamostore.NewBare(api, dynamostore.Options{Table: "t", Namespace: "n"}))
}

func (c *table) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	before := c.Table.Items[memtable.Key(in.Key)]
	out, err := c.Table.UpdateItem(ctx, in)
	if err == nil {
		units := (max(memtable.Size(before), memtable.Size(out.Attributes)) + 1023) / 1024
		out.ConsumedCapacity = &types.ConsumedCapacity{CapacityUnits: aws.Float64(float64(units))}
	}
	if form := fmt.Sprint(*in.UpdateExpression, *in.ConditionExpression, err == nil); c.isNew(form) {
		c.put(in.Key, before)
		sent := *in
		sent.TableName, sent.ReturnConsumedCapacity = aws.String(c.name), types.ReturnConsumedCapacityTotal
		want, problem := c.client.UpdateItem(context.Background(), &sent)
		c.compare(in, out, err, want, problem)
	}
	return out, err
}

// isNew counts a call, and reports whether it is compared.
func (c *table) isNew(form string) bool {
	c.forms[form]++
	return c.client != nil && c.forms[form] == 1
}

// put makes item the item with the key in DynamoDB Local.
func (c *table) put(key, item memtable.Item) {
	var err error
	if item == nil {
		_, err = c.client.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: aws.String(c.name), Key: key})
	} else {
		_, err = c.client.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String(c.name), Item: item})
	}
	if err != nil {
		c.t.Error(err)
	}
}

// compare compares the answer to an update with that of DynamoDB Local.
func (c *table) compare(in *dynamodb.UpdateItemInput, got *dynamodb.UpdateItemOutput, problem error, want *dynamodb.UpdateItemOutput,
	err error) {
	refused, isRefused := errors.AsType[*types.ConditionalCheckFailedException](problem)
	failed, isFailed := errors.AsType[*types.ConditionalCheckFailedException](err)
	var item, wanted memtable.Item
	switch {
	case isRefused && isFailed:
		c.failed++
		item, wanted = refused.Item, failed.Item
	case problem == nil && err == nil:
		item, wanted = got.Attributes, want.Attributes
		units, consumed := aws.ToFloat64(got.ConsumedCapacity.CapacityUnits), aws.ToFloat64(want.ConsumedCapacity.CapacityUnits)
		if consumed != units {
			c.t.Errorf("%s: got %g write units, want %g as in DynamoDB Local", *in.UpdateExpression, units, consumed)
		}
		if units > 1 {
			c.large++
		}
	default:
		c.t.Errorf("%s if %s: got error %v, want %v as in DynamoDB Local", *in.UpdateExpression, *in.ConditionExpression, problem, err)
	}
	if !reflect.DeepEqual(item, wanted) && len(item)+len(wanted) > 0 {
		c.t.Errorf("%s if %s: got item %v, want %v as in DynamoDB Local", *in.UpdateExpression, *in.ConditionExpression, item, wanted)
	}
}

func (c *table) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.Table.GetItem(ctx, in)
}

func (c *table) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput,
	error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	before := c.Table.Items[memtable.Key(in.Key)]
	out, err := c.Table.DeleteItem(ctx, in)
	if c.isNew(fmt.Sprint("delete", *in.ConditionExpression, err == nil)) {
		c.put(in.Key, before)
		sent := *in
		sent.TableName = aws.String(c.name)
		if _, problem := c.client.DeleteItem(context.Background(), &sent); (err == nil) != (problem == nil) {
			c.t.Errorf("delete if %s: got error %v, want %v as in DynamoDB Local", *in.ConditionExpression, err, problem)
		}
	}
	return out, err
}

func key(s limiter.Subject) string { return s.Key("n") }

func (c *table) item(s limiter.Subject) memtable.Item { return maps.Clone(c.Table.Items[key(s)]) }

func (c *table) set(s limiter.Subject, attributes memtable.Item) {
	item := memtable.Item{dynamostore.KeyAttribute: &types.AttributeValueMemberS{Value: key(s)}}
	maps.Copy(item, c.item(s))
	maps.Copy(item, attributes)
	if c.Table.Items == nil {
		c.Table.Items = map[string]memtable.Item{}
	}
	c.Table.Items[key(s)] = item
}

// life returns the time from the instant now to the expiry of the item of a subject.
func (c *table) life(s limiter.Subject, now time.Time) time.Duration {
	seconds := storetest.Must(strconv.ParseInt(c.item(s)[dynamostore.TTLAttribute].(*types.AttributeValueMemberN).Value, 10, 64))
	return time.Unix(seconds, 0).Sub(now)
}

func (c *table) take(t *testing.T, now time.Time, charges ...limiter.Charge) bool {
	t.Helper()
	allowed, _ := take(t, c, algo.InstantOf(now), charges...)
	return allowed
}

// take makes charges on the subject of the first, by a process that does not know it.
func take(t testing.TB, s limiter.Store, now algo.Instant, charges ...limiter.Charge) (allowed bool, results []algo.Result) {
	t.Helper()
	results = make([]algo.Result, len(charges))
	allowed, err := s.Take(t.Context(), now, charges[0].Subject, charges, results)
	if err != nil {
		t.Fatal(err)
	}
	return allowed, results
}

// admit makes charges that the store must allow.
func admit(t testing.TB, s limiter.Store, now algo.Instant, charges ...limiter.Charge) []algo.Result {
	t.Helper()
	allowed, results := take(t, s, now, charges...)
	if !allowed {
		t.Fatalf("%+v: got a refusal, want an admission", charges)
	}
	return results
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
