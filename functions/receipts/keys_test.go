package receipts_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Concurrent authorizers create one key, and all of them use it. They call only the listed actions, on only the
// listed item. A function that opens receipts never writes.
func TestLoad(t *testing.T) {
	var calls, reads recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	reader := reads.Client(client)
	storetest.Must(records.GetConsistent(ctx, new(recordstest.Calls).Client(client), table, contract.ReceiptKeysKey)) // opens the connection without the timeout of a function
	if _, err := receipts.Read(ctx, reader, table); err == nil || !strings.Contains(err.Error(), "item receiptkeys: missing") {
		t.Errorf("before the first receipt: got %v, want an error", err)
	}
	var wg sync.WaitGroup
	texts := make([]string, 4)
	for i := range texts {
		wg.Go(func() {
			keys, err := receipts.Load(ctx, client, table)
			if err != nil {
				t.Error(err)
				return
			}
			texts[i] = storetest.Must(receipts.Fixed("dev", keys).Seal(ctx, noon, []byte("charges")))
		})
	}
	wg.Wait()
	ring := receipts.Fixed("dev", storetest.Must(receipts.Read(ctx, reader, table)))
	for _, text := range texts {
		if got, err := ring.Open(ctx, noon, text); err != nil || string(got) != "charges" {
			t.Errorf("got %q, %v; want the receipt", got, err)
		}
	}
	calls.Want(t, append(contract.RecordActions(), contract.ReceiptKeyActions()...))
	reads.Want(t, contract.RecordActions())
	for _, key := range calls.Keys() {
		if key != contract.ReceiptKeysKey {
			t.Errorf("items: got %q, want only the item of the keys", key)
		}
	}
}

// A rotation keeps the previous key. The next rotation fails while a receipt of the previous key can be
// valid. Of concurrent rotations one succeeds.
func TestRotate(t *testing.T) {
	var calls recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	if err := receipts.Rotate(ctx, client, table, noon, false); err == nil || !strings.Contains(err.Error(), "no key of receipts to rotate") {
		t.Errorf("before the first receipt: got %v, want an error", err)
	}
	first := storetest.Must(receipts.Fixed("dev", storetest.Must(receipts.Load(ctx, client, table))).Seal(ctx, noon, nil))
	opens := func(when string, want bool) {
		t.Helper()
		if _, err := receipts.Fixed("dev", storetest.Must(receipts.Read(ctx, client, table))).Open(ctx, noon, first); (err == nil) != want {
			t.Errorf("%s: got %v, want the first receipt to open: %t", when, err, want)
		}
	}
	if err := receipts.Rotate(ctx, client, table, noon, false); err != nil {
		t.Fatal(err)
	}
	opens("after a rotation", true)
	if err := receipts.Rotate(ctx, client, table, noon.Add(receipts.Stale+receipts.MaxLife), false); !errors.Is(err, receipts.ErrInUse) {
		t.Errorf("an early rotation: got %v, want ErrInUse", err)
	}
	opens("after a failed rotation", true)
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = receipts.Rotate(ctx, client, table, noon.Add(2*(receipts.Stale+receipts.MaxLife)), false)
		})
	}
	wg.Wait()
	if failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil })); failed != 3 {
		t.Errorf("concurrent rotations: got %d failures, want 3", failed)
	}
	opens("after the second rotation", false)
	if err := receipts.Rotate(ctx, client, table, noon.Add(2*(receipts.Stale+receipts.MaxLife)), true); err != nil {
		t.Errorf("a forced rotation: got %v, want none", err)
	}
	for _, action := range append(contract.RecordActions(), contract.ReceiptKeyActions()...) {
		if !slices.Contains(contract.KeyActions(), action) {
			t.Errorf("actions of an administrator of keys: got no %s, want it", action)
		}
	}
}

// An item with mistakes is an error that contains no part of a key.
func TestRead_mistakes(t *testing.T) {
	client, table := recordstest.Table(t, nil)
	for want, set := range map[string]func(it records.Item){
		"current: got 0 bytes, want 32": func(records.Item) {},
		"current: got 5 bytes, want 32": func(it records.Item) { it.SetBinary("current", []byte("short")) },
		"previous: got 5 bytes, want 32": func(it records.Item) {
			it.SetBinary("current", make([]byte, 32))
			it.SetBinary("previous", []byte("short"))
		},
		`rotated: got "", want a time`: func(it records.Item) {
			it.SetBinary("current", make([]byte, 32))
			it.SetBinary("previous", make([]byte, 32))
		},
	} {
		it := records.NewItem(contract.ReceiptKeysKey)
		set(it)
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
			t.Fatal(err)
		}
		if _, err := receipts.Read(ctx, client, table); err == nil || !strings.Contains(err.Error(), "item receiptkeys: "+want) || strings.Contains(err.Error(), "short") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
