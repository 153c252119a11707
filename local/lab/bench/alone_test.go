package bench

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
)

// contender makes one call for a caller.
type contender struct {
	name string
	call func(ctx context.Context, id string) error
}

// BenchmarkOneCaller compares calls of one caller at a time, as in a Lambda function. It prints the time of a bare call,
// and those of the others as multiples of it. The calls alternate, so that a busy machine slows all of them.
func BenchmarkOneCaller(b *testing.B) {
	b.Run("Redis", func(b *testing.B) { compare(b, 100, aloneOnRedis(b)) })
	b.Run("DynamoDB", func(b *testing.B) { compare(b, 10, aloneOnDynamo(b)) })
}

// compare makes calls in blocks of n.
func compare(b *testing.B, n int, all []contender) {
	b.Helper()
	run, took := crand.Text(), make([][]time.Duration, len(all))
	for b.Loop() {
		for i, c := range all {
			for range n {
				id := run + strconv.Itoa(rand.IntN(100))
				began := time.Now()
				if err := c.call(b.Context(), id); err != nil {
					b.Fatalf("%s: %v", c.name, err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	part := func(i, percent int) float64 {
		return float64(took[i][len(took[i])*percent/100]) / float64(time.Microsecond)
	}
	for i, c := range all {
		slices.Sort(took[i])
		fmt.Printf("%-24s p50 %7.1f us, %5.2f of %s; p99 %7.1f us, %5.2f\n", c.name, part(i, 50), part(i, 50)/part(0, 50), all[0].name,
			part(i, 99), part(i, 99)/part(0, 99))
	}
}

// counting is the cheapest script that counts in a window.
var counting = redis.NewScript(`local n = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {n, redis.call('PTTL', KEYS[1])}`)

func aloneOnRedis(b *testing.B) []contender {
	c := client(b)
	all := []contender{
		{"no-op script", nil},
		{"PING", func(ctx context.Context, _ string) error { return c.Ping(ctx).Err() }},
		{"INCR, PEXPIRE, PTTL", func(ctx context.Context, id string) error {
			return counting.Run(ctx, c, []string{"c" + id}, 60_000).Err()
		}},
	}
	for _, p := range redisPeers {
		decide := p.open(c, 1, endless)
		call := func(ctx context.Context, id string) error {
			_, err := decide(ctx, id)
			return err
		}
		if all[0].call == nil {
			all[0].call = call // the first peer is the script
		} else {
			all = append(all, contender{p.name, call})
		}
	}
	store := must(redisstore.New(must(redisstore.NewClient(storetest.Server(b, "redis", "REDIS_URL"), redisstore.ClientOptions{})),
		redisstore.Options{Namespace: "alone" + crand.Text()}))
	return append(all, contender{"weir, with the breaker", deciding(store, algo.SlidingWindow)})
}

func aloneOnDynamo(b *testing.B) []contender {
	endpoint := storetest.Server(b, "dynamodb", "DYNAMODB_ENDPOINT")
	must(checkout.MakeTable(b.Context(), endpoint, checkout.Table))
	c := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	key := func(id string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"pk": text("bare" + id)}
	}
	all := []contender{
		{"UpdateItem", func(ctx context.Context, id string) error {
			_, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String(checkout.Table), Key: key(id),
				UpdateExpression: aws.String("ADD n :one"), ReturnValues: types.ReturnValueAllNew,
				ExpressionAttributeValues: map[string]types.AttributeValue{":one": integer(1)}})
			return err
		}},
		{"GetItem", func(ctx context.Context, id string) error {
			_, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(checkout.Table), Key: key(id)})
			return err
		}},
	}
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		store := must(dynamostore.New(c, dynamostore.Options{Table: checkout.Table, Namespace: "alone" + crand.Text()}))
		all = append(all, contender{"weir/" + string(a), deciding(store, a)})
	}
	return all
}

// deciding returns a decision by one limit that no benchmark reaches.
func deciding(store limiter.Store, a algo.Algorithm) func(ctx context.Context, id string) error {
	l := must(limiter.New(store, limiter.Options{Logger: silent, Timeout: 900 * time.Millisecond}))
	limit := limitOf(a, "l", endless, time.Hour)
	return func(ctx context.Context, id string) error {
		d, err := l.Take(ctx, time.Now(), []limiter.Charge{{Subject: limiter.User(id), Limit: limit, Cost: 1}})
		if err == nil && d.Reason != limiter.ReasonNone {
			err = fmt.Errorf("%w: %s", errUndecided, d.Reason)
		}
		return err
	}
}
