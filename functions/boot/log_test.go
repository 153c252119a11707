package boot_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The function log verifies what authorizers sign with the key in the records table. It reads only that item.
func TestConfig_LogEnvironment(t *testing.T) {
	var calls recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	// This call opens the connection. The function under test has a short timeout.
	storetest.Must(records.GetConsistent(t.Context(), new(recordstest.Calls).Client(client), table, contract.MACKeyKey))
	key := storetest.Must(mac.Load(t.Context(), new(recordstest.Calls).Client(client), table))
	c := storetest.Must(boot.Load(lookup("NAMESPACE=dev", "STORE=dynamodb://counters", "RECORDS_TABLE="+table)))
	c.Share(client)
	var store limiter.Store = storetest.Must(memstore.New(memstore.Options{}))
	e := storetest.Must(c.LogEnvironment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	verify := func(region string) error {
		ring := mac.NewRing(mac.Scope{Namespace: "dev", Region: region}, func(context.Context) ([]byte, error) { return key, nil })
		return e.MACs.Verify(t.Context(), e.Clock(), []byte("text"), storetest.Must(ring.Sign(t.Context(), e.Clock(), []byte("text"))))
	}
	if err := verify(client.Options().Region); err != nil {
		t.Errorf("got %v, want none", err)
	}
	if err := verify("mars-north-1"); !errors.Is(err, mac.ErrForged) { // a replica of a global table has the same key
		t.Errorf("another region: got %v, want %v", err, mac.ErrForged)
	}
	got, err := lambdahttp.NewLog(e, nil).Invoke(t.Context(), []byte(`{"report":"x.y","cost":1}`))
	if err != nil || string(got) != `{"charged":false,"reason":"forged"}` {
		t.Errorf("a forged value: got %s, %v", got, err)
	}
	calls.Want(t, contract.RecordActions())
	for _, key := range calls.Keys() {
		if key != contract.MACKeyKey {
			t.Errorf("items: got %q, want only the key of MACs", key)
		}
	}
}
