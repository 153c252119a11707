package dynamostore

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
)

// scripted is an API whose n-th update returns the result of the function answer.
type scripted struct {
	API
	n      int
	answer func(n int) (*dynamodb.UpdateItemOutput, error)
}

func (s *scripted) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	s.n++
	return s.answer(s.n)
}

func itemOf(l *limiter.Limit, s algo.State) map[string]types.AttributeValue {
	item := layoutOf(l.Machine()).write(nil, l.ID.String(), s, 0)
	item[KeyAttribute] = &types.AttributeValueMemberS{Value: "x"}
	item[attribute(fingerprintAttribute, l.ID.String())] = &types.AttributeValueMemberS{Value: l.Fingerprint()}
	item[attribute(versionAttribute, l.ID.String())] = number(l.Version)
	return item
}

// In its last attempt, Take finds an item that refuses, or converts a state that then refuses. In both
// cases it returns the refusal.
func TestStore_Take_lastAttempt(t *testing.T) {
	now := algo.InstantOf(time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC))
	limit := func(version int64, r algo.Rate) *limiter.Limit {
		l, err := limiter.NewLimit(limiter.Limit{Name: "a", Version: version, Rate: r})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	const last = 1 + 2 + contended
	failed := func(l *limiter.Limit, s algo.State) (*dynamodb.UpdateItemOutput, error) {
		return nil, &types.ConditionalCheckFailedException{Item: itemOf(l, s)}
	}
	log := limit(1, algo.Rate{Algorithm: algo.SlidingLog, Requests: 2, Window: time.Minute})
	window := limit(1, algo.Rate{Algorithm: algo.FixedWindow, Requests: 12, Window: time.Second})
	bucket := limit(2, algo.Rate{Algorithm: algo.TokenBucket, Requests: 15, Window: 1300 * time.Millisecond})
	for name, c := range map[string]struct {
		limit  *limiter.Limit
		cost   int64
		answer func(n int) (*dynamodb.UpdateItemOutput, error)
	}{
		"refusal found": {log, 1, func(n int) (*dynamodb.UpdateItemOutput, error) {
			if n == last {
				return failed(log, algo.State{Newest: now, Refunds: int64(n), Entries: algo.NewEntries(now, now)})
			}
			return failed(log, algo.State{Newest: now, Refunds: int64(n), Entries: algo.NewEntries(now)})
		}},
		"refusal converted": {bucket, 14, func(n int) (*dynamodb.UpdateItemOutput, error) {
			if n == last {
				return &dynamodb.UpdateItemOutput{Attributes: itemOf(bucket, algo.State{TAT: now.Add(1300 * time.Millisecond)})}, nil
			}
			return failed(window, algo.State{Window: now.Time().Unix(), Count: 10 + int64(n)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api := &scripted{answer: c.answer}
			store, err := NewBare(api, Options{Table: "t", Namespace: "n"})
			if err != nil {
				t.Fatal(err)
			}
			who := limiter.User("u")
			results := make([]algo.Result, 1)
			ok, err := store.Take(t.Context(), now, who, []limiter.Charge{{Subject: who, Limit: c.limit, Cost: c.cost}}, results)
			if ok || err != nil || api.n != last {
				t.Fatalf("got %t, %v after %d attempts, want a refusal after %d", ok, err, api.n, last)
			}
			if wait := results[0].Machine.RetryAfter(results[0].State, now, c.cost); wait <= 0 {
				t.Errorf("got a wait of %s, want the wait of the state that refuses", wait)
			}
		})
	}
}

// A change of the item's layout needs a new format, which is part of the key. Without a new format, a
// new version of Weir would fail on the items of an older version.
func TestFormat(t *testing.T) {
	const want = `4 {"c00000000y":{"Value":"0"},"c00000000z":{"Value":"3"},"x00000000":{"Value":"35"}}` +
		` {"g00000000":{"Value":"7"},"t00000000":{"Value":"5"}}` +
		` {"l00000000":{"Value":[{"Value":"5"},{"Value":"6"}]},"n00000000":{"Value":[{"Value":"0"},{"Value":"9"},{"Value":"2"}]},` +
		`"x00000000":{"Value":"0"}}` +
		` {"m00000000":{"Value":["5","6"]},"x00000000":{"Value":"0"}}`
	got := limiter.StateFormat
	for _, c := range []struct {
		machine algo.Machine
		state   algo.State
	}{
		{&algo.Window{Length: time.Second, Requests: 9}, algo.State{Window: 35, Count: 3}},
		{&algo.Bucket{Interval: time.Second, Depth: time.Second, Burst: 9}, algo.State{TAT: 5, Refunds: 7}},
		{&algo.Log{Length: time.Second, Requests: 9}, algo.State{Newest: 6, Refunds: 9, Entries: algo.NewEntries(5, 6)}},
		{&algo.Slots{Length: time.Second, Requests: 9}, algo.State{Newest: 6, Refunds: 9, Entries: algo.NewEntries(5, 6)}},
	} {
		encoded, err := json.Marshal(layoutOf(c.machine).write(nil, "00000000", c.state, 0))
		if err != nil {
			t.Fatal(err)
		}
		got += " " + string(encoded)
	}
	if got != want {
		t.Errorf("layout: got\n%s\nwant\n%s\nraise format if the layout changed", got, want)
	}
}

// A cost that no limit admits does not make later slots equal.
func TestNewEntry(t *testing.T) {
	newEntry(0, math.MaxInt64)
	if a, b := newEntry(0, 1), newEntry(0, 1); a == b {
		t.Errorf("got the entry %d twice", a)
	}
}
