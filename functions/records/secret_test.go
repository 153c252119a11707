package records_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
)

// Concurrent environments create one secret, and all use it. They call only the listed actions and write
// only the listed item.
func TestLoadSecret(t *testing.T) {
	var calls recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all [][]byte
	for range 8 {
		wg.Go(func() {
			key, err := records.LoadSecret(ctx, client, table, contract.SubjectKeyKey)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, key)
		})
	}
	wg.Wait()
	later, err := records.LoadSecret(ctx, client, table, contract.SubjectKeyKey)
	if err != nil || len(later) != 32 {
		t.Errorf("key: got %d bytes, error %v; want 32 bytes", len(later), err)
	}
	for _, key := range all {
		if !bytes.Equal(key, later) {
			t.Errorf("key of a later call: got %x, want %x", key, later)
		}
	}
	calls.Want(t, append(contract.RecordActions(), contract.CreateActions()...))
	for _, key := range calls.Keys() {
		if key != contract.SubjectKeyKey {
			t.Errorf("accessed items: got %q, want only the item of the key", key)
		}
	}
	short := records.NewItem(contract.SubjectKeyKey)
	short.SetBinary("key", []byte("short"))
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: short}); err != nil {
		t.Fatal(err)
	}
	if key, err := records.LoadSecret(ctx, client, table, contract.SubjectKeyKey); err == nil {
		t.Errorf("short key: got %x, want an error", key)
	}
}

// An item of an earlier version is an error that says what to do.
func TestSecretOf_earlier(t *testing.T) {
	for key, want := range map[string]string{
		contract.SecretsKey: "records table: item secrets: of an earlier version; delete the item, revoke all API keys, and create them again",
		contract.MACKeyKey:  "records table: item mackey: of an earlier version; delete the item",
	} {
		item := records.NewItem(key)
		item.SetBinary("current", bytes.Repeat([]byte{1}, 32))
		item.SetBinary("previous", bytes.Repeat([]byte{2}, 32))
		if _, err := records.SecretOf(key, item); err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", key, err, want)
		}
	}
}
