package dynamostore_test

import (
	"context"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
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

// A large item loses its dead counts as soon as a limit has three counts, however few they are; a
// small one keeps them until they are more than eight.
func TestStore_tidy_crowded(t *testing.T) {
	for limits, want := range map[int]int{2: 5, 6: 6} {
		b, who := newTable(t), caller()
		var charges []limiter.Charge
		for i := range limits {
			charges = append(charges, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "l"+strconv.Itoa(i), sliding), Cost: 1})
		}
		for visit, some := range [][]limiter.Charge{charges, charges, charges[:1]} {
			b.take(t, noon.Add(time.Duration(visit)*10*time.Minute), some...)
		}
		counts := 0
		for name := range b.item(t, who) {
			if name[0] == 'c' {
				counts++
			}
		}
		if counts != want {
			t.Errorf("%d limits: %d counts after three visits, want %d", limits, counts, want)
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

// However many limits are idle, or counts of one limit dead, each removal fits one
// expression, and after a few decisions there is nothing left to remove: each is one call
// again.
func TestStore_tidy_many(t *testing.T) {
	ctx := context.Background()
	for name, fill := range map[string]func(t *testing.T, b table, who limiter.Subject){
		"idle windows": func(t *testing.T, b table, who limiter.Subject) {
			for i := range 60 {
				b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), sliding), Cost: 1})
			}
		},
		"idle buckets": func(t *testing.T, b table, who limiter.Subject) {
			for i := range 60 {
				b.take(t, noon, limiter.Charge{Subject: who, Limit: storetest.Limit(t, "gone"+strconv.Itoa(i), bucket), Cost: 1})
			}
		},
		"dead counts": func(t *testing.T, b table, who limiter.Subject) {
			limit := storetest.Limit(t, "gone", sliding)
			b.take(t, noon, limiter.Charge{Subject: who, Limit: limit, Cost: 1})
			item := b.item(t, who)
			for i := range 500 {
				item["c"+limit.ID.String()+strconv.FormatInt(int64(i), 36)] = &types.AttributeValueMemberN{Value: "1"}
			}
			maps.Copy(item, b.key(who))
			if _, err := b.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(b.name), Item: item}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meter{}
			client, table := local(t, m.install)
			b, who := tableOf(client, table), caller()
			fill(t, b, who)
			m.operators, m.bytes = 0, 0
			stays := limiter.Charge{Subject: who, Limit: storetest.Limit(t, "stays", sliding), Cost: 1}
			for i := range 10 {
				b.take(t, noon.Add(24*time.Hour+time.Duration(i)*time.Second), stays)
			}
			if n := len(b.item(t, who)); n > 8 {
				t.Errorf("%d attributes after ten decisions", n)
			}
			before := m.calls.Load()
			for i := range 10 {
				b.take(t, noon.Add(24*time.Hour+time.Duration(10+i)*time.Second), stays)
			}
			if n := m.calls.Load() - before; n != 10 {
				t.Errorf("%d calls for 10 decisions once all is removed", n)
			}
			if m.operators > 300 || m.bytes > 4096 {
				t.Errorf("an expression has %d operators and %d bytes", m.operators, m.bytes)
			}
		})
	}
}

// Counts that were dead when an item was read are not removed if the newest window has been set
// back since: they are live then.
func TestStore_tidy_setBack(t *testing.T) {
	ctx := context.Background()
	client, name := local(t)
	who, limit := caller(), storetest.Limit(t, "a", sliding)
	key := map[string]types.AttributeValue{dynamostore.KeyAttribute: &types.AttributeValueMemberS{Value: who.Key("contended", 1)}}
	update := func(expression string, names map[string]string, values map[string]types.AttributeValue) {
		t.Helper()
		if _, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: aws.String(name), Key: key,
			UpdateExpression: aws.String(expression), ExpressionAttributeNames: names, ExpressionAttributeValues: values}); err != nil {
			t.Fatal(err)
		}
	}
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	newest, index := "x"+limit.ID.String(), limit.Machine().(*algo.Window).Index(algo.InstantOf(noon))
	counted := func(window int64) string { return "c" + limit.ID.String() + strconv.FormatInt(window, 36) }
	api := &overtaking{API: client, before: 2, happens: func() { // between the charge and the tidy
		update("SET #x = :x", map[string]string{"#x": newest}, map[string]types.AttributeValue{":x": number(index - 10)})
	}}
	for i := range int64(12) {
		update("SET #c = :n", map[string]string{"#c": counted(index - 5 - i)}, map[string]types.AttributeValue{":n": number(7)})
	}
	take := func(store *dynamostore.Store, now time.Time) algo.Result {
		t.Helper()
		results := make([]algo.Result, 1)
		if ok, err := store.Take(ctx, algo.InstantOf(now), who, []limiter.Charge{{Subject: who, Limit: limit, Cost: 1}}, results); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return results[0]
	}
	take(newOvertaking(api, name), noon)
	if api.updates != 2 {
		t.Fatalf("%d updates, want the charge and a tidy", api.updates)
	}
	if r := take(newOvertaking(&overtaking{API: client}, name), noon.Add(-10*time.Minute)); r.State.Count != 8 {
		t.Errorf("the window that is the newest again counts %d, want the 7 that it had and one more", r.State.Count)
	}
}
