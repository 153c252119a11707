package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
)

// The expected dollars per million requests are computed by hand. Lambda: 0.20 for invocations, and
// 0.033325 for 5 ms of 0.5 GB each. DynamoDB: 0.625 for one write each. ElastiCache: 0.0069 for
// three ECPUs each.
func TestRun_dollars(t *testing.T) {
	strict := limiter.Limit{Global: true, Rate: algo.Rate{Requests: 1e6, Window: time.Second, Algorithm: algo.FixedWindow}}
	for _, test := range []struct {
		store      Store
		invocation time.Duration
		want       float64
	}{
		{DynamoDB, time.Millisecond, 0.20 + 0.033325 + 0.625}, // 3.5 ms for the call and 1 ms for the rest are 4.5 ms, billed as 5 ms
		{ElastiCache, time.Millisecond, 0.20 + 0.033325 + 0.0069},
	} {
		p := small(test.store)
		p.Median, p.P99, p.Invocation, p.SlotECPUs = 3500*time.Microsecond, 3500*time.Microsecond, test.invocation, 1e6
		if r := simulated(t, Scenario{Name: "dollars", Limit: limit(t, strict), Parameters: p}); math.Abs(r.Dollars-test.want) > 1e-9 {
			t.Errorf("%s: cost of a million requests: got %g, want %g", test.store, r.Dollars, test.want)
		}
	}
	s := simulation{Scenario: &Scenario{Parameters: Parameters{Store: DynamoDB}}, meter: &meter{reads: 3e6}, tally: new(Result)}
	if got := s.dollars(1e6); math.Abs(got-(0.20+3*0.125)) > 1e-9 {
		t.Errorf("cost of a million requests with three reads each: got %g, want 0.575", got)
	}
}

// creation returns an update that creates an item of a size, if there is none.
func creation(size int) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		Key:                 memtable.Item{dynamostore.KeyAttribute: &types.AttributeValueMemberS{Value: "k"}},
		ConditionExpression: aws.String("attribute_not_exists(#0)"), UpdateExpression: aws.String("SET #0 = :0"),
		ExpressionAttributeNames:  map[string]string{"#0": "a"},
		ExpressionAttributeValues: memtable.Item{":0": &types.AttributeValueMemberS{Value: strings.Repeat("x", size-len("pk"+"k"+"a"))}},
	}
}

// An update costs one unit per started KB of the item, also if its condition is false. A read costs one unit per
// started 4 KB, or half of that if a stale answer is acceptable.
func TestTable_units(t *testing.T) {
	for size, c := range map[int]struct {
		writes int64
		reads  float64
	}{10: {1, 1}, 1024: {1, 1}, 1025: {2, 1}, 4096: {4, 1}, 4097: {5, 2}} {
		m := &meter{}
		table := newTable(m, 1000)
		for n := range int64(2) { // the first update creates the item, and the condition of the second is false
			_, err := table.update(epoch.Add(time.Duration(n)*time.Second), creation(size), true)
			if (err == nil) != (n == 0) || m.writes != (n+1)*c.writes {
				t.Errorf("%d bytes, update %d: got error %v and %d write units in total, want %d", size, n, err, m.writes, (n+1)*c.writes)
			}
		}
		for n, consistent := range []bool{true, false} {
			if _, err := table.get(epoch.Add(time.Duration(2+n)*time.Second), &dynamodb.GetItemInput{Key: creation(10).Key,
				ConsistentRead: aws.Bool(consistent)}, true); err != nil {
				t.Error(err)
			}
		}
		if m.reads != 1.5*c.reads || m.calls != 4 {
			t.Errorf("%d bytes: got %g read units in %d calls, want %g in 4 calls", size, m.reads, m.calls, 1.5*c.reads)
		}
	}
}

// Until replicaLag after a write, a stale read returns the item from before it.
func TestTable_stale(t *testing.T) {
	table := newTable(&meter{}, 1000)
	if _, err := table.update(epoch, creation(10), true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after            time.Duration
		consistent, want bool
	}{{time.Millisecond, true, true}, {replicaLag - 1, false, false}, {replicaLag, false, true}} {
		out, err := table.get(epoch.Add(c.after), &dynamodb.GetItemInput{Key: creation(10).Key, ConsistentRead: aws.Bool(c.consistent)}, true)
		if err != nil || (out.Item != nil) != c.want {
			t.Errorf("%s after the write, consistent %t: got item %v and error %v, want an item: %t", c.after, c.consistent, out.Item, err, c.want)
		}
	}
}
