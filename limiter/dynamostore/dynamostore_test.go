package dynamostore_test

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
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

// The store passes the whole suite and calls only the listed actions. The suite includes conversions,
// clamps and removals of limits.
func TestStore(t *testing.T) {
	var o operations
	client, table := local(t)
	client = dynamodb.New(client.Options(), o.install)
	storetest.Run(t, storetest.Suite{
		Open: func(*testing.T) limiter.Store {
			return storetest.Must(dynamostore.New(client, dynamostore.Options{Table: table, Namespace: "test", Margin: 50 * time.Millisecond}))
		},
		Margin: 50 * time.Millisecond,
		Slow:   true,
	})
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
			return storetest.Must(dynamostore.New(connect(t), dynamostore.Options{Table: table, Namespace: "linear", Margin: 50 * time.Millisecond}))
		},
		Margin:    50 * time.Millisecond,
		Processes: true,
		Releases:  true,
	})
}
