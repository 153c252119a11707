package dynamostore_test

import (
	"errors"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The store passes the whole suite on a table in memory, which gives the same answers as DynamoDB Local, and whose items have
// the same size. The suite includes conversions, clamps and removals of limits.
func TestStore(t *testing.T) {
	c := newTable(t)
	storetest.Run(t, storetest.Suite{
		Open: func(*testing.T) limiter.Store {
			return storetest.Must(dynamostore.NewBare(c, dynamostore.Options{Table: "t", Namespace: "n", Margin: 50 * time.Millisecond}))
		},
		Margin:   50 * time.Millisecond,
		Releases: true,
	})
	calls := 0
	for _, n := range c.forms {
		calls += n
	}
	t.Logf("%d items, %d calls of %d forms; compared: %d false conditions, %d updates of more than one write unit", len(c.Table.Items), calls,
		len(c.forms), c.failed, c.large)
	if c.client != nil && (c.failed == 0 || c.large == 0) {
		t.Errorf("compared updates: got %d with a false condition and %d of more than one write unit, want some of both", c.failed, c.large)
	}
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
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		Retryer: aws.NopRetryer{}, HTTPClient: refusing{}})
	charges := []limiter.Charge{{Subject: limiter.User("a"), Limit: storetest.Limit(t, "a", algo.Rate{Requests: 10, Window: time.Minute}),
		Cost: 1}}
	for open, store := range map[bool]limiter.Store{
		true:  storetest.Must(dynamostore.New(client, dynamostore.Options{Table: "t", Namespace: "n"})),
		false: storetest.Must(dynamostore.Open(client, "t", "n")),
	} {
		synctest.Test(t, func(t *testing.T) {
			take := func() error {
				_, err := store.Take(t.Context(), algo.InstantOf(time.Now()), charges[0].Subject, charges, make([]algo.Result, 1))
				return err
			}
			for range resilient.Failures {
				if err := take(); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Fatalf("got error %v, want %v", err, syscall.ECONNREFUSED)
				}
			}
			time.Sleep(resilient.Pause + 1)
			if err := take(); errors.Is(err, limiter.ErrBreakerOpen) != open {
				t.Errorf("after the pause: got error %v, want %v: %t", err, limiter.ErrBreakerOpen, open)
			}
		})
	}
}
