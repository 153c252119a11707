package dynamostore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// operations records the names of the operations that a client calls. IAM policies use the same names
// for actions.
type operations struct {
	mu  sync.Mutex
	all []string
}

func (o *operations) install(options *dynamodb.Options) {
	options.APIOptions = append(options.APIOptions, func(s *middleware.Stack) error {
		return s.Initialize.Add(middleware.InitializeMiddlewareFunc("operations", func(ctx context.Context, in middleware.InitializeInput,
			next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			o.mu.Lock()
			o.all = append(o.all, "dynamodb:"+awsmiddleware.GetOperationName(ctx))
			o.mu.Unlock()
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
	})
}

// take returns the names of the operations that were called since the last take, without duplicates.
func (o *operations) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	called := slices.Compact(slices.Sorted(slices.Values(o.all)))
	o.all = nil
	return called
}

// Decisions and administration call exactly the actions in the lists of the package.
func TestActions(t *testing.T) {
	var o operations
	client, table := onServer(t)
	observed := dynamodb.New(client.Options(), o.install)
	store := storetest.Must(dynamostore.NewBare(observed, dynamostore.Options{Table: table, Namespace: "actions",
		Margin: 50 * time.Millisecond}))
	ctx, who, now := context.Background(), caller(), algo.InstantOf(noon)
	for _, algorithm := range algorithms {
		rate := algo.Rate{Algorithm: algorithm, Requests: 2, Window: time.Minute}
		charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "l", rate), Cost: 1}}
		results := make([]algo.Result, 1)
		for range 4 { // the limit refuses the last of these requests
			if _, err := store.Take(ctx, now, who, charges, results); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Settle(ctx, now, who, charges, results, 0); err != nil {
			t.Fatal(err)
		}
		charges[0].Cost = 0 // when a function starts, it makes a Take of cost 0
		if _, err := store.Take(ctx, now, who, charges, make([]algo.Result, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.take(); !slices.Equal(got, dynamostore.Actions()) {
		t.Errorf("deciding calls: got %v, want %v", got, dynamostore.Actions())
	}
	if _, err := store.Inspect(ctx, who); err != nil {
		t.Fatal(err)
	}
	if err := store.Reset(ctx, who); err != nil {
		t.Fatal(err)
	}
	if got := o.take(); !slices.Equal(got, dynamostore.AdministrationActions()) {
		t.Errorf("administration calls: got %v, want %v", got, dynamostore.AdministrationActions())
	}
}

// The store estimates the clock skew from the Date of each answer, including refusals.
func TestStore_ClockSkew(t *testing.T) {
	client, table := onServer(t)
	store, who := storetest.Must(dynamostore.NewBare(client, dynamostore.Options{Table: table, Namespace: "skew"})), caller()
	if _, _, ok := store.ClockSkew(); ok {
		t.Error("skew before any call: got a known skew, want unknown")
	}
	charges := []limiter.Charge{{Subject: who, Limit: storetest.Limit(t, "l", algo.Rate{Requests: 1, Window: time.Minute}), Cost: 1}}
	for range 2 {
		sent := time.Now()
		if _, err := store.Take(context.Background(), algo.InstantOf(noon), who, charges, make([]algo.Result, 1)); err != nil {
			t.Fatal(err)
		}
		most := (time.Second+time.Since(sent))/2 + 50*time.Millisecond // the resolution of Date, the round trip, and the spread of the hosts
		if ahead, uncertainty, ok := store.ClockSkew(); !ok || ahead.Abs() > uncertainty || uncertainty > most {
			t.Errorf("skew: got %s ± %s (known %t), want 0 ± at most %s on one machine", ahead, uncertainty, ok, most)
		}
	}
}
