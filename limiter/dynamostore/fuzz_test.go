package dynamostore_test

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// canned is an API with a table of one item. It refuses every other update, and accepts the others
// without changing the item. It records the updates.
type canned struct {
	dynamostore.API
	item    map[string]types.AttributeValue
	updates []*dynamodb.UpdateItemInput
}

func (c *canned) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{Item: c.item}, nil
}

func (c *canned) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput,
	error) {
	c.updates = append(c.updates, in)
	if len(c.updates)%2 == 1 {
		return nil, &types.ConditionalCheckFailedException{Item: c.item}
	}
	return &dynamodb.UpdateItemOutput{Attributes: c.item}, nil
}

// FuzzStore_item searches for an item that breaks the store, or for which the store sends an update
// that DynamoDB rejects. Each line of attributes has a name, a type and a value, such as "f* S
// sliding/1m0s/10". The character * represents the ID of the limit.
func FuzzStore_item(f *testing.F) {
	var limits []*limiter.Limit
	for _, algorithm := range algorithms {
		limits = append(limits, storetest.Limit(f, "a", algo.Rate{Algorithm: algorithm, Requests: 10, Window: time.Minute, Counts: true}))
	}
	other := storetest.Limit(f, "b", sliding)
	for _, attributes := range []string{
		"", "f* S sliding/1m0s/10\nv* N 1\nx* N 68377680\nc*14pkk0 N 10\nc*14pkjz N 3\nc*14pkhs N 3\nttl N 5",
		"f* S bucket/6s/10\nv* N 1\nt* N 4107585625000000000\ng* N 2",
		"f* S log/1m0s/10\nv* N 0\nn* L 4107585625000000000,77,1\nl* L 4107585620000000000,4107585625000000000",
		"f* S fixed/1h0m0s/10\nx* N 1.5", "f* N 7", "f* S sliding/1m0s/10\nx* S 7\nc* L ,", "f* S log/1s/3\nl* L x\nn* N -1",
		"f* S bucket/1s/3\nt* L 7",
		"f* S slots/1m0s/2\nv* N 0\nx* N 1643034250\nm* NS 4107585620000000000,4107585625000000000", "f* S slots/1s/1\nm* NS x",
		"f* S slots/1s/1\nm* L 7",
		"f* S slots/1m0s/10\nv* N 1\nx* N 9\nm* NS 1,2,3,4,5,6,7,8,9,10",
	} {
		for i := range uint8(len(limits)) {
			f.Add(attributes, i, int64(3), false)
			f.Add(attributes, i, int64(17), true)
			f.Add(attributes, i, int64(0), false)
		}
	}
	f.Fuzz(func(t *testing.T, attributes string, which uint8, cost int64, spend bool) {
		limit := limits[int(which)%len(limits)]
		c := &canned{item: parseItem(attributes, limit.ID.String())}
		s, who, ctx := open(c), limiter.User("fuzz"), context.Background()
		_, err := s.Inspect(ctx, who)
		readable := err == nil
		if !readable && !errors.Is(err, limiter.ErrFormat) {
			t.Fatalf("%q: got error %v, want ErrFormat", attributes, err)
		}
		charges := []limiter.Charge{{Subject: who, Limit: limit, Cost: max(0, cost), Force: spend}, {Subject: who, Limit: other, Cost: 1}}
		results := make([]algo.Result, 2)
		if _, err := s.Take(ctx, algo.InstantOf(noon), who, charges, results); err == nil {
			charges[0].Cost = min(charges[0].Cost, limit.Machine().Capacity()) // a store never admits a cost above the capacity
			_, err = s.Settle(ctx, 0, who, charges, results, time.Second)
			if err != nil {
				t.Fatalf("%q: refund: got error %v, want none", attributes, err)
			}
		} else if readable && !errors.Is(err, limiter.ErrContended) {
			t.Fatalf("%q: got error %v, want ErrContended or none", attributes, err)
		}
		for _, u := range c.updates {
			checkUpdate(t, u)
		}
	})
}

func parseItem(attributes, id string) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{dynamostore.KeyAttribute: &types.AttributeValueMemberS{Value: "key"}}
	for line := range strings.Lines(attributes) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) < 3 || !strings.Contains(fields[0], "*") {
			continue
		}
		name := strings.Replace(fields[0], "*", id, 1)
		switch fields[1] {
		case "S":
			item[name] = &types.AttributeValueMemberS{Value: fields[2]}
		case "N":
			item[name] = &types.AttributeValueMemberN{Value: fields[2]}
		case "L":
			list := &types.AttributeValueMemberL{}
			for n := range strings.SplitSeq(fields[2], ",") {
				list.Value = append(list.Value, &types.AttributeValueMemberN{Value: n})
			}
			item[name] = list
		case "NS":
			item[name] = &types.AttributeValueMemberNS{Value: strings.Split(fields[2], ",")}
		}
	}
	return item
}

var placeholder = regexp.MustCompile(`[#:][0-9a-z]+`)

// checkUpdate checks an update like DynamoDB: every placeholder is defined and used, and no attribute
// is updated twice.
func checkUpdate(t *testing.T, u *dynamodb.UpdateItemInput) {
	t.Helper()
	used := map[string]bool{}
	for _, p := range placeholder.FindAllString(*u.UpdateExpression+" "+*u.ConditionExpression, -1) {
		used[p] = true
	}
	known := slices.Collect(maps.Keys(u.ExpressionAttributeNames))
	known = slices.AppendSeq(known, maps.Keys(u.ExpressionAttributeValues))
	for _, p := range known {
		if !used[p] {
			t.Errorf("placeholder %s: got no use in %q and %q, want one", p, *u.UpdateExpression, *u.ConditionExpression)
		}
		delete(used, p)
	}
	if len(used) > 0 {
		t.Errorf("placeholders %v: got no definition, want one for each in %q and %q", used, *u.UpdateExpression, *u.ConditionExpression)
	}
	set, removed, _ := strings.Cut(strings.TrimPrefix(*u.UpdateExpression, "SET "), " REMOVE ")
	var paths []string
	for clause := range strings.SplitSeq(set, ", #") {
		name, _, _ := strings.Cut(strings.TrimPrefix(clause, "#"), " = ")
		// A part with one of these characters is the end of an if_not_exists and not a path.
		if !strings.ContainsAny(name, "(: ") {
			paths = append(paths, "#"+name)
		}
	}
	if removed != "" {
		paths = append(paths, strings.Split(removed, ", ")...)
	}
	slices.Sort(paths)
	if len(slices.Compact(slices.Clone(paths))) != len(paths) {
		t.Errorf("update: got an attribute twice in %q, want it once", *u.UpdateExpression)
	}
}
