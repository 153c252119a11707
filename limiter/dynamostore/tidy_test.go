package dynamostore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A log is cut as soon as it holds twice what it may, to those that some clock counts.
func TestStore_tidy_log(t *testing.T) {
	b, who := newTable(t), caller()
	limit := storetest.Limit(t, "a", algo.Rate{Algorithm: algo.SlidingLog, Requests: 4, Window: time.Second})
	for i, c := range []struct {
		cost int64
		left int
	}{{4, 4}, {4, 4}, {3, 7}, {1, 1}} { // each long after the last
		if !b.take(t, noon.Add(time.Duration(i)*10*time.Second), limiter.Charge{Subject: who, Limit: limit, Cost: c.cost}) {
			t.Fatal("refused")
		}
		if got := len(b.item(t, who)["l"+limit.ID.String()].(*types.AttributeValueMemberL).Value); got != c.left {
			t.Errorf("after charge %d: %d entries, want %d", i+1, got, c.left)
		}
	}
}

// A limit goes when it has been idle for an hour, and not a nanosecond earlier; what cannot
// be read stays.
func TestStore_tidy_idle(t *testing.T) {
	b, who := newTable(t), caller()
	second := algo.Rate{Requests: 10, Window: time.Second}
	for i := range 9 {
		b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), second), Cost: 1})
	}
	odd := "f" + limiter.NewID("odd").String()
	if _, err := b.client.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
		TableName: aws.String(b.name), Key: b.key(who), UpdateExpression: aws.String("SET #f = :f"),
		ExpressionAttributeNames:  map[string]string{"#f": odd},
		ExpressionAttributeValues: map[string]types.AttributeValue{":f": &types.AttributeValueMemberN{Value: "7"}},
	}); err != nil {
		t.Fatal(err)
	}
	stays := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "stays", algo.Rate{Algorithm: algo.TokenBucket, Requests: 10, Window: time.Minute}), Cost: 1}
	idle := noon.Truncate(time.Second).Add(2*time.Second + time.Hour)
	b.take(t, idle.Add(-1), stays)
	if n := len(b.item(t, who)); n < 9*4 {
		t.Errorf("%d attributes a nanosecond before the limits have been idle for an hour", n)
	}
	b.take(t, idle, stays)
	item := b.item(t, who)
	if n := len(item); n > 8 {
		t.Errorf("%d attributes when the limits have been idle for an hour: %v", n, item)
	}
	if _, ok := item[odd]; !ok {
		t.Error("what cannot be read was removed")
	}
}
