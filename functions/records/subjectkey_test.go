package records_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// The key is made once, however many make it at the same time, and functions read it by what they
// are allowed.
func TestKeys_SubjectKey(t *testing.T) {
	var operator, function calls
	client, table := local(t, &operator)
	reader := records.NewTable(dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.APIOptions = nil }, function.install), table)
	if key, err := reader.SubjectKey(ctx); key != nil || err != nil {
		t.Errorf("in an empty table: %x, %v", key, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all [][]byte
	makers := 0
	for range 8 {
		wg.Go(func() {
			key, made, err := records.NewKeys(client, table).SubjectKey(ctx)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, key)
			if made {
				makers++
			}
		})
	}
	wg.Wait()
	read, err := reader.SubjectKey(ctx)
	if err != nil || len(read) != 32 || makers != 1 {
		t.Errorf("%d bytes, made %d times, %v; want 32 made once", len(read), makers, err)
	}
	for _, key := range all {
		if !bytes.Equal(key, read) {
			t.Errorf("got %x, want %x", key, read)
		}
	}
	function.want(t, contract.RecordActions())
	_, err = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]types.AttributeValue{
		contract.KeyAttribute: &types.AttributeValueMemberS{Value: "subjectkey"}, "key": &types.AttributeValueMemberB{Value: []byte("short")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if key, err := reader.SubjectKey(ctx); err == nil {
		t.Errorf("a key that is too short: %x", key)
	}
}
