package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
)

// decide decides one request of a caller by all limits at an instant.
type decide func(ctx context.Context, now time.Time, id string) (allowed bool, err error)

// The last two are common patterns of other limiters on DynamoDB.
var dynamoPeers = []struct {
	name string
	open func(c *dynamodb.Client, limits []*limiter.Limit) decide
	a    algo.Algorithm
}{
	{"weir/token_bucket", weirOnDynamo, algo.TokenBucket},
	{"weir/sliding_window", weirOnDynamo, algo.SlidingWindow},
	{"weir/sliding_log", weirOnDynamo, algo.SlidingLog},
	{"read,_compare_and_swap", swap, algo.TokenBucket},
	{"expire_or_increment", increment, algo.FixedWindow},
}

var errUndecided = errors.New("undecided")

func weirOnDynamo(c *dynamodb.Client, limits []*limiter.Limit) decide {
	l := must(limiter.New(must(dynamostore.NewBare(c, dynamostore.Options{Table: checkout.Table, Namespace: "w"})),
		limiter.Options{Logger: silent}))
	return func(ctx context.Context, now time.Time, id string) (bool, error) {
		var charges []limiter.Charge
		for _, limit := range limits {
			charges = append(charges, limiter.Charge{Subject: limiter.User(id), Limit: limit, Cost: 1})
		}
		d, err := l.Take(ctx, now, charges)
		if err == nil && d.Reason != limiter.ReasonNone {
			err = fmt.Errorf("%w: %s", errUndecided, d.Reason)
		}
		return d.Allowed, err
	}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func integer(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func each(limits []*limiter.Limit, one func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error)) decide {
	return func(ctx context.Context, now time.Time, id string) (bool, error) {
		for _, limit := range limits {
			if ok, err := one(ctx, algo.InstantOf(now), limit, id+"/"+limit.Name); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// swap reads the item, and writes the new state if the item is unchanged.
func swap(c *dynamodb.Client, limits []*limiter.Limit) decide {
	table := aws.String(checkout.Table)
	return each(limits, func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error) {
		for range 20 {
			out, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: map[string]types.AttributeValue{"pk": text(key)},
				ConsistentRead: aws.Bool(true)})
			if err != nil {
				return false, err
			}
			var state algo.State
			put := &dynamodb.PutItemInput{TableName: table, ConditionExpression: aws.String("attribute_not_exists(pk)")}
			if old, ok := out.Item["tat"].(*types.AttributeValueMemberN); ok {
				state.TAT = algo.Instant(must(strconv.ParseInt(old.Value, 10, 64)))
				put.ConditionExpression = aws.String("tat = :old")
				put.ExpressionAttributeValues = map[string]types.AttributeValue{":old": old}
			}
			next, ok := limit.Machine().Take(state, now, 1)
			if !ok {
				return false, nil
			}
			put.Item = map[string]types.AttributeValue{"pk": text(key), "tat": integer(int64(next.TAT)), "ttl": integer(next.TAT.Time().Unix())}
			_, err = c.PutItem(ctx, put)
			if _, overtaken := errors.AsType[*types.ConditionalCheckFailedException](err); !overtaken {
				return err == nil, err
			}
		}
		return false, errUndecided
	})
}

// increment starts a new window if the last one has expired. If not, it increments its count, which includes refusals.
func increment(c *dynamodb.Client, limits []*limiter.Limit) decide {
	table := aws.String(checkout.Table)
	return each(limits, func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error) {
		start := &dynamodb.UpdateItemInput{
			TableName: table, Key: map[string]types.AttributeValue{"pk": text(key)},
			UpdateExpression:    aws.String("SET points = :one, expires = :end"),
			ConditionExpression: aws.String("attribute_not_exists(pk) OR expires <= :now"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": integer(1), ":now": integer(int64(now)),
				":end": integer(int64(now.Add(limit.Rate.Window)))},
		}
		_, err := c.UpdateItem(ctx, start)
		if _, counting := errors.AsType[*types.ConditionalCheckFailedException](err); !counting {
			return err == nil, err
		}
		out, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: table, Key: start.Key, UpdateExpression: aws.String("ADD points :one"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": integer(1)}, ReturnValues: types.ReturnValueUpdatedNew,
		})
		if err != nil {
			return false, err
		}
		n, err := strconv.ParseInt(out.Attributes["points"].(*types.AttributeValueMemberN).Value, 10, 64)
		return n <= limit.Rate.Requests, err
	})
}

// BenchmarkDynamoDB reports requests to DynamoDB for a decision. The limit is 100 requests in 10 s. Clocks are simulated,
// and arrivals are a Poisson process.
func BenchmarkDynamoDB(b *testing.B) {
	for _, s := range []struct {
		name                             string
		load                             float64 // part of the limit
		limits, environments, concurrent int
	}{
		{"one_by_one", 0.5, 1, 1, 1}, {"three_limits", 0.5, 3, 1, 1}, {"64_concurrent", 0.5, 1, 1, 64}, {"five_times_the_limit", 5, 1, 1, 1},
		{"flood", 10, 1, 1, 1}, {"50_environments_half_load", 0.5, 1, 50, 1}, {"50_environments_full_load", 1, 1, 50, 1},
	} {
		for _, p := range dynamoPeers {
			b.Run(s.name+"/"+p.name, func(b *testing.B) {
				endpoint := storetest.Server(b, "dynamodb", "DYNAMODB_ENDPOINT")
				must(checkout.MakeTable(b.Context(), endpoint, checkout.Table))
				var requests, failed atomic.Int64
				c := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &endpoint,
					Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")}, func(o *dynamodb.Options) {
					o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
						return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("count", func(ctx context.Context, in middleware.InitializeInput,
							next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
							requests.Add(1)
							return next.HandleInitialize(ctx, in)
						}), middleware.Before)
					})
				})
				var limits []*limiter.Limit
				for i := range s.limits {
					limits = append(limits, limitOf(p.a, "l"+strconv.Itoa(i), 100, 10*time.Second))
				}
				var fleet []decide
				for range s.environments {
					fleet = append(fleet, p.open(c, limits))
				}
				id, now, random := strconv.FormatUint(rand.Uint64(), 36), time.Now(), rand.New(rand.NewPCG(1, 2))
				n := 0
				for b.Loop() {
					n += s.concurrent
					now = now.Add(time.Duration(random.ExpFloat64() * float64(s.concurrent) * float64(100*time.Millisecond) / s.load))
					var all sync.WaitGroup
					for range s.concurrent {
						environment := fleet[random.IntN(len(fleet))]
						all.Go(func() {
							if _, err := environment(b.Context(), now, id); err != nil {
								failed.Add(1)
							}
						})
					}
					all.Wait()
				}
				b.ReportMetric(float64(requests.Load())/float64(n), "requests/decision")
				b.ReportMetric(float64(failed.Load())/float64(n), "failed/decision")
			})
		}
	}
}
