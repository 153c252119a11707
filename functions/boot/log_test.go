package boot_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The function log opens the receipts that authorizers seal with the keys in the records table. It reads
// only that item.
func TestConfig_LogEnvironment(t *testing.T) {
	var calls recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	// This call opens the connection. The function under test has a short timeout.
	storetest.Must(records.GetConsistent(t.Context(), new(recordstest.Calls).Client(client), table, contract.ReceiptKeysKey))
	keys := storetest.Must(receipts.Load(t.Context(), new(recordstest.Calls).Client(client), table))
	c := storetest.Must(boot.Load(lookup("NAMESPACE=dev", "TABLE=counters", "RECORDS_TABLE="+table)))
	c.Share(client)
	var store limiter.Store = storetest.Must(memstore.New(memstore.Options{}))
	e := storetest.Must(c.LogEnvironment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	sealed := func(region string) string {
		ring := receipts.NewRing(receipts.Scope{Namespace: "dev", Region: region}, func(context.Context) (receipts.Keys, error) { return keys, nil })
		return storetest.Must(ring.Seal(t.Context(), e.Clock(), nil))
	}
	if _, err := e.Receipts.Open(t.Context(), e.Clock(), sealed(client.Options().Region)); err != nil {
		t.Errorf("got %v, want the receipt", err)
	}
	if _, err := e.Receipts.Open(t.Context(), e.Clock(), sealed("mars-north-1")); !errors.Is(err, receipts.ErrForged) { // a replica of a global table has the same keys
		t.Errorf("receipt of another region: got %v, want %v", err, receipts.ErrForged)
	}
	got, err := lambdahttp.NewForward(e).Invoke(t.Context(), fmt.Appendf(nil, `{"receipt":%q,"cost":1}`, "x"))
	if err != nil || string(got) != `{"settled":false,"reason":"forged"}` {
		t.Errorf("a forged receipt: got %s, %v", got, err)
	}
	calls.Want(t, contract.RecordActions())
	for _, key := range calls.Keys() {
		if key != contract.ReceiptKeysKey {
			t.Errorf("items: got %q, want only the keys of receipts", key)
		}
	}
}
