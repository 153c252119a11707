package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// dynamoContender is a way to decide in DynamoDB.
type dynamoContender struct {
	name      string
	algorithm algo.Algorithm
	aligned   bool // its windows are those of algorithm, so a replay by algorithm can count wrong admissions
	// environment returns the function of a new limiter, which has no state.
	environment func(dynamoPlace, []*limiter.Limit) decideDynamo
}

// dynamoPlace is the client, the table and the caller that a contender uses.
type dynamoPlace struct {
	meter  *meter
	table  string
	caller string
}

// decideDynamo decides one request of the caller by all limits.
type decideDynamo func(ctx context.Context, now time.Time) (allowed bool, err error)

// errUndecided means that a contender reached no decision.
var errUndecided = errors.New("undecided")

func dynamoContenders() []dynamoContender {
	var all []dynamoContender
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow, algo.FixedWindow, algo.SlidingLog} { // leaky_bucket makes the same requests as token_bucket
		all = append(all, dynamoContender{string(a), a, true, weirEnvironment})
	}
	return append(all,
		dynamoContender{"read, compare and swap", algo.TokenBucket, true, swapEnvironment},
		dynamoContender{"expire or increment", algo.FixedWindow, false, incrementEnvironment})
}

// weirEnvironment decides with the public call of Weir, from the caller's ID to the decision.
func weirEnvironment(p dynamoPlace, limits []*limiter.Limit) decideDynamo {
	l := must(limiter.New(must(dynamostore.NewBare(p.meter, dynamostore.Options{Table: p.table, Namespace: "w"})), limiter.Options{Logger: silent}))
	return func(ctx context.Context, now time.Time) (bool, error) {
		var charges []limiter.Charge
		for _, limit := range limits {
			charges = append(charges, limiter.Charge{Subject: limiter.User(p.caller), Limit: limit, Cost: 1})
		}
		d, err := l.Take(ctx, now, charges)
		if err == nil && d.Reason != limiter.ReasonNone {
			err = fmt.Errorf("%w: %s", errUndecided, d.Reason)
		}
		return d.Allowed, err
	}
}

// inTurn decides with several limits, one after another, each with its own item.
func inTurn(p dynamoPlace, limits []*limiter.Limit, decide func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error)) decideDynamo {
	return func(ctx context.Context, now time.Time) (bool, error) {
		for _, limit := range limits {
			if ok, err := decide(ctx, algo.InstantOf(now), limit, p.caller+"/"+limit.Name); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// swapAttempts is the maximum number of attempts of a compare-and-swap.
const swapAttempts = 20

// swapEnvironment is the first of two patterns that other DynamoDB limiters commonly use. It reads the item,
// and writes the new state if the item is unchanged.
func swapEnvironment(p dynamoPlace, limits []*limiter.Limit) decideDynamo {
	return inTurn(p, limits, func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error) {
		for range swapAttempts {
			out, err := p.meter.GetItem(ctx, &dynamodb.GetItemInput{TableName: &p.table, Key: map[string]types.AttributeValue{"pk": text(key)}, ConsistentRead: aws.Bool(true)})
			if err != nil {
				return false, err
			}
			var state algo.State
			put := &dynamodb.PutItemInput{TableName: &p.table, ConditionExpression: aws.String("attribute_not_exists(pk)")}
			if old, ok := out.Item["tat"].(*types.AttributeValueMemberN); ok {
				tat, err := strconv.ParseInt(old.Value, 10, 64)
				if err != nil {
					return false, err
				}
				state.TAT = algo.Instant(tat)
				put.ConditionExpression = aws.String("tat = :old")
				put.ExpressionAttributeValues = map[string]types.AttributeValue{":old": old}
			}
			next, ok := limit.Machine().Take(state, now, 1)
			if !ok {
				return false, nil
			}
			put.Item = map[string]types.AttributeValue{"pk": text(key), "tat": integer(int64(next.TAT)), "ttl": integer(next.TAT.Time().Unix())}
			_, err = p.meter.PutItem(ctx, put)
			if _, overtaken := errors.AsType[*types.ConditionalCheckFailedException](err); overtaken {
				continue
			}
			return err == nil, err
		}
		return false, errUndecided
	})
}

// incrementEnvironment is the second pattern that other DynamoDB limiters commonly use. If the last window
// has expired, it starts a new window. If not, it increments the count of the window. The count includes
// refused requests.
func incrementEnvironment(p dynamoPlace, limits []*limiter.Limit) decideDynamo {
	return inTurn(p, limits, func(ctx context.Context, now algo.Instant, limit *limiter.Limit, key string) (bool, error) {
		start := &dynamodb.UpdateItemInput{
			TableName: &p.table, Key: map[string]types.AttributeValue{"pk": text(key)},
			UpdateExpression:    aws.String("SET points = :one, expires = :end"),
			ConditionExpression: aws.String("attribute_not_exists(pk) OR expires <= :now"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":one": integer(1), ":now": integer(int64(now)), ":end": integer(int64(now.Add(limit.Rate.Window)))},
		}
		_, err := p.meter.UpdateItem(ctx, start)
		if _, counting := errors.AsType[*types.ConditionalCheckFailedException](err); !counting {
			return err == nil, err
		}
		out, err := p.meter.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &p.table, Key: start.Key, UpdateExpression: aws.String("ADD points :one"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": integer(1)}, ReturnValues: types.ReturnValueUpdatedNew,
		})
		if err != nil {
			return false, err
		}
		points, ok := out.Attributes["points"].(*types.AttributeValueMemberN)
		if !ok {
			return false, fmt.Errorf("points: got type %T, want a number", out.Attributes["points"])
		}
		n, err := strconv.ParseInt(points.Value, 10, 64)
		return n <= limit.Rate.Requests, err
	})
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func integer(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
