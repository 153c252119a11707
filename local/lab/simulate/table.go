package simulate

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
)

// table is a DynamoDB table in memory with the throughput of DynamoDB. Each item has its own partition, as
// after DynamoDB's adaptive capacity has isolated it, unless crowded is set. The table as a whole is
// unlimited unless throttled is set.
type table struct {
	*meter
	rate    float64 // write units per second of a partition
	stored  memtable.Table
	items   map[string]*item // by key
	crowded *partition       // if not nil, the one partition of all items
	// throttled reports whether the whole table throttles writes at a time. nil: never.
	throttled func(at algo.Instant) bool
}

// partition is the capacity of a range of keys.
type partition struct{ writes, reads allowance }

// readsPerWrite is how many read units per second a partition accepts for each write unit.
const readsPerWrite = 3

func newPartition(rate float64, at algo.Instant) *partition {
	return &partition{newAllowance(rate, at), newAllowance(readsPerWrite*rate, at)}
}

// item has the load of an item, its partition, and what stale reads return.
type item struct {
	heat
	*partition
	// Stale reads return before until replicaLag after written.
	before  memtable.Item
	written algo.Instant
}

// replicaLag is how long after a write an eventually consistent read returns the earlier state.
const replicaLag = 10 * time.Millisecond

func newTable(m *meter, rate float64) *table {
	return &table{meter: m, rate: rate, items: map[string]*item{}}
}

// find returns the item with a key, and adds it if it is missing. It counts a call if billed is true: the
// request counts in the results.
func (t *table) find(key string, at algo.Instant, billed bool) *item {
	if billed {
		t.calls++
	}
	stored := t.items[key]
	if stored == nil {
		stored = &item{partition: t.crowded}
		if stored.partition == nil {
			stored.partition = newPartition(t.rate, at)
		}
		t.items[key] = stored
	}
	return stored
}

// itemThrottled is the error of a call to a partition that has no units left.
var itemThrottled = &types.ThrottlingException{
	ThrottlingReasons: []types.ThrottlingReason{{Reason: aws.String("TableWriteKeyRangeThroughputExceeded")}},
}

// update makes an update. Also an update whose condition is false costs one unit per started KB of the item.
func (t *table) update(at algo.Instant, in *dynamodb.UpdateItemInput, billed bool) (*dynamodb.UpdateItemOutput, error) {
	key := memtable.Key(in.Key)
	item := t.find(key, at, billed)
	if t.throttled != nil && t.throttled(at) {
		t.refuse(at)
		return nil, &types.ThrottlingException{}
	}
	if !item.writes.open(at) {
		t.refuse(at)
		return nil, itemThrottled
	}
	before := t.stored.Items[key]
	out, err := t.stored.UpdateItem(context.Background(), in)
	if err == nil && at.Sub(item.written) >= replicaLag {
		item.before, item.written = before, at
	}
	units := started(max(memtable.Size(before), memtable.Size(t.stored.Items[key])), 1024)
	item.writes.spare -= units
	if billed {
		t.writes += int64(units)
	}
	t.warm(&item.heat, at, units)
	return out, err
}

// get reads an item. It costs one unit per started 4 KB, or half a unit if a stale answer is acceptable.
func (t *table) get(at algo.Instant, in *dynamodb.GetItemInput, billed bool) (*dynamodb.GetItemOutput, error) {
	key := memtable.Key(in.Key)
	item, found := t.find(key, at, billed), t.stored.Items[key]
	if !item.reads.open(at) {
		return nil, itemThrottled
	}
	units := started(memtable.Size(found), 4096)
	if !aws.ToBool(in.ConsistentRead) {
		units /= 2
		if at.Sub(item.written) < replicaLag {
			found = item.before
		}
	}
	item.reads.spare -= units
	if billed {
		t.reads += units
	}
	return &dynamodb.GetItemOutput{Item: found}, nil
}

// started returns the number of units for a number of bytes: one for each started unit, and at least one.
func started(bytes, unit int) float64 { return float64((max(bytes, 1) + unit - 1) / unit) }
