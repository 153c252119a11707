package simulate

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

type link interface {
	// trip sends one call. serve runs when the call arrives. trip returns an error if the answer
	// comes after the deadline.
	trip(ctx context.Context, serve func(at algo.Instant)) error
	// measured reports whether the current request counts in the results: it is after the warm-up.
	measured() bool
}

// carry makes a call over a link and returns its answer.
func carry[T any](ctx context.Context, l link, serve func(at algo.Instant, billed bool) (T, error)) (T, error) {
	// The call can arrive after the timeout, when carry has returned.
	var answer struct {
		value T
		err   error
	}
	billed := l.measured()
	if err := l.trip(ctx, func(at algo.Instant) { answer.value, answer.err = serve(at, billed) }); err != nil {
		var none T
		return none, fmt.Errorf("%w: %w", limiter.ErrUnavailable, err)
	}
	return answer.value, answer.err
}

// newDynamo returns the store of one environment over a table.
func newDynamo(l link, t *table) (limiter.Store, error) {
	return dynamostore.NewBare(client{link: l, table: t}, dynamostore.Options{Table: "simulated", Namespace: "s",
		Logger: slog.New(slog.DiscardHandler)})
}

// client is DynamoDB's API for one environment.
type client struct {
	dynamostore.API // embedded for DeleteItem, which is never called
	link            link
	table           *table
}

func (c client) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	return carry(ctx, c.link, func(at algo.Instant, billed bool) (*dynamodb.UpdateItemOutput, error) {
		return c.table.update(at, in, billed)
	})
}

func (c client) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return carry(ctx, c.link, func(at algo.Instant, billed bool) (*dynamodb.GetItemOutput, error) {
		return c.table.get(at, in, billed)
	})
}
