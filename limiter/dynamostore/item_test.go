package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// An item with one limit stays small for each algorithm, even if the caller is at its limit or in
// debt. The store trims a log that has twice its capacity.
func TestStore_itemSize_algorithms(t *testing.T) {
	b := newTable(t)
	for _, algorithm := range algorithms {
		limit := storetest.Limit(t, "l", algo.Rate{Algorithm: algorithm, Requests: 20, Window: 10 * time.Second})
		who, now, largest := caller(), noon, 0
		for i := range 400 {
			now = now.Add(time.Duration(i%7) * 150 * time.Millisecond)
			if i%50 == 0 {
				now = now.Add(17 * time.Second)
			}
			b.take(t, now, limiter.Charge{Subject: who, Limit: limit, Cost: int64(i % 4), Force: i%40 == 0})
			item := b.item(who)
			largest = max(largest, memtable.Size(item))
			if list, ok := item["l"+limit.ID.String()].(*types.AttributeValueMemberL); ok && int64(len(list.Value)) >= 2*limit.Rate.Requests {
				t.Errorf("%s: list after charge %d: got %d entries, want less than %d, because the store trims a list of twice the capacity", algorithm,
					i+1, len(list.Value), 2*limit.Rate.Requests)
			}
		}
		t.Logf("%s: largest item %d bytes", algorithm, largest)
		if largest > 1024 {
			t.Errorf("%s: largest item: got %d bytes, want at most 1024", algorithm, largest)
		}
	}
}

// A write by an environment with older rules does not shorten the life of a count. In the older rules
// the limit has a shorter window or does not exist.
func TestStore_itemTTL_olderRules(t *testing.T) {
	b, who := newTable(t), caller()
	limits := map[string]*limiter.Limit{}
	for name, l := range map[string]limiter.Limit{
		"month":   {Name: "a", Version: 2, Rate: algo.Rate{Requests: 10, Window: 30 * 24 * time.Hour, Counts: true}},
		"older":   {Name: "a", Version: 1, Rate: algo.Rate{Requests: 10, Window: time.Second}},
		"another": {Name: "b", Version: 1, Rate: algo.Rate{Requests: 10, Window: time.Second}},
	} {
		made := storetest.Must(limiter.NewLimit(l))
		limits[name] = made
	}
	for i, name := range []string{"month", "older", "another", "month", "another"} {
		now := noon.Add(time.Duration(i) * time.Second)
		b.take(t, now, limiter.Charge{Subject: who, Limit: limits[name], Cost: 1})
		if left := b.life(who, now); left < 30*24*time.Hour {
			t.Errorf("after %s: got an expiry in %s, want at least 30 days", name, left)
		}
	}
}

// No write of a short limit shortens the life of the item. The test covers every kind of write: first
// charge, later charge, conversion by a refusal, debt, refund, and trim of a log.
func TestStore_itemTTL_algorithms(t *testing.T) {
	b, ctx := newTable(t), context.Background()
	day := storetest.Limit(t, "day", algo.Rate{Requests: 10, Window: 24 * time.Hour, Counts: true})
	for i, algorithm := range algorithms {
		who := caller()
		short := func(version int64, algorithm algo.Algorithm) *limiter.Limit {
			made := limiter.Limit{Name: "short", Rate: algo.Rate{Algorithm: algorithm, Requests: 5, Window: time.Second}, Version: version,
				Horizon: day.Horizon}
			if algorithm == algo.Concurrent {
				made.Count.Of = limiter.CountConcurrent
			}
			return storetest.Must(limiter.NewLimit(made))
		}
		now := noon
		check := func(what string) {
			t.Helper()
			if left := b.life(who, now); left < 48*time.Hour {
				t.Errorf("%s, %s: got an expiry in %s, want at least 48 hours", algorithm, what, left)
			}
		}
		take := func(what string, limit *limiter.Limit, cost int64, spend bool) []algo.Result {
			t.Helper()
			results := make([]algo.Result, 1)
			charges := []limiter.Charge{{Subject: who, Limit: limit, Cost: cost, Force: spend}}
			if _, err := b.Take(ctx, algo.InstantOf(now), who, charges, results); err != nil {
				t.Fatal(err)
			}
			check(what)
			return results
		}
		first, next := short(1, algorithm), short(2, algorithms[(i+1)%len(algorithms)])
		b.take(t, now, limiter.Charge{Subject: who, Limit: day, Cost: 1})
		now = now.Add(10 * time.Second)
		results := take("first charge", first, 3, false)
		if _, err := b.Settle(ctx, 0, who, []limiter.Charge{{Subject: who, Limit: first, Cost: 3}}, results, 0); err != nil {
			t.Fatal(err)
		}
		check("refund")
		take("debt", first, 7, true)
		take("capped debt", first, 9, true)
		take("refusal", first, 1, false)
		take("refusal that converts", next, 1, false)
		for range 12 {
			now = now.Add(10 * time.Second)
			take("charge", next, 5, false)
		}
	}
}

// For a state that it cannot parse, the store returns ErrFormat and no decision. A table that does not exist is an outage.
func TestStore_unreadable(t *testing.T) {
	client, name := onServer(t)
	limit := storetest.Limit(t, "a", sliding)
	take := func(table string, who limiter.Subject, cost int64) error {
		store := storetest.Must(dynamostore.NewBare(client, dynamostore.Options{Table: table, Namespace: "n"}))
		_, err := store.Take(t.Context(), algo.InstantOf(noon), who, []limiter.Charge{{Subject: who, Limit: limit, Cost: cost}},
			make([]algo.Result, 1))
		return err
	}
	id := limit.ID.String()
	for problem, item := range map[string]memtable.Item{
		"fingerprint": {"f" + id: &types.AttributeValueMemberS{Value: "spiral/1m/3"}},
		"number":      {"f" + id: &types.AttributeValueMemberS{Value: limit.Fingerprint()}, "x" + id: &types.AttributeValueMemberS{Value: "7"}},
	} {
		who := caller()
		item[dynamostore.KeyAttribute] = &types.AttributeValueMemberS{Value: key(who)}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(name), Item: item}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := take(name, who, 1000); !errors.Is(err, limiter.ErrFormat) && !errors.Is(err, limiter.ErrUnavailable) {
				t.Errorf("%s: got error %v, want ErrFormat", problem, err)
			}
		}
	}
	err := take("no-such-table", caller(), 1)
	if _, notFound := errors.AsType[*types.ResourceNotFoundException](err); !errors.Is(err, limiter.ErrUnavailable) || !notFound {
		t.Errorf("missing table: got error %v, want ErrUnavailable and ResourceNotFoundException", err)
	}
}
