package mac_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/limiter/storetest"
)

var (
	ctx  = context.Background()
	noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
)

// A ring verifies only the MAC that it returned for the same text, with its key and in its scope.
func TestRing_Verify(t *testing.T) {
	secret, text := []byte("secret"), "a text"
	ring := mac.Fixed("dev", secret)
	sum := storetest.Must(ring.Sign(ctx, noon, []byte(text)))
	if err := ring.Verify(ctx, noon, []byte(text), sum); err != nil {
		t.Fatalf("got %v, want none", err)
	}
	for name, c := range map[string]struct {
		ring      *mac.Ring
		text, sum string
	}{
		"another text":      {ring, "a text ", sum},
		"no MAC":            {ring, text, ""},
		"a part":            {ring, text, sum[:42]},
		"a longer MAC":      {ring, text, sum + "A"},
		"another key":       {mac.Fixed("dev", []byte("other")), text, sum},
		"another namespace": {mac.Fixed("prod", secret), text, sum},
		"another region": {mac.NewRing(mac.Scope{Namespace: "dev", Region: "eu-west-1"}, func(context.Context) ([]byte, error) {
			return secret,
				nil
		}),
			text, storetest.Must(mac.NewRing(mac.Scope{Namespace: "dev"}, func(context.Context) ([]byte, error) { return secret, nil }).Sign(ctx,
				noon, []byte(text)))},
	} {
		if err := c.ring.Verify(ctx, noon, []byte(c.text), c.sum); !errors.Is(err, mac.ErrForged) {
			t.Errorf("%s: got %v, want ErrForged", name, err)
		}
	}
	down := errors.New("down")
	failing := mac.NewRing(mac.Scope{Namespace: "dev"}, func(context.Context) ([]byte, error) { return nil, down })
	if err := failing.Verify(ctx, noon, []byte(text), sum); !errors.Is(err, down) || errors.Is(err, mac.ErrForged) {
		t.Errorf("without a key: got %v, want %v", err, down)
	}
}

// Concurrent authorizers create one key, and all of them use it. They call only the listed actions, on only the
// listed item. A function that verifies never writes.
func TestLoad(t *testing.T) {
	var calls, reads recordstest.Calls
	client, table := recordstest.Table(t, &calls)
	reader := reads.Client(client)
	// opens the connection without the timeout of a function
	storetest.Must(records.GetConsistent(ctx, new(recordstest.Calls).Client(client), table, contract.MACKeyKey))
	if _, err := mac.Read(ctx, reader, table); err == nil || !strings.Contains(err.Error(), "item mackey: missing") {
		t.Errorf("before the first MAC: got %v, want an error", err)
	}
	var wg sync.WaitGroup
	keys := make([]string, 4)
	for i := range keys {
		wg.Go(func() {
			key, err := mac.Load(ctx, client, table)
			keys[i] = string(key)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if read := string(storetest.Must(mac.Read(ctx, reader, table))); key != read {
			t.Errorf("got the key %x, want %x", key, read)
		}
	}
	calls.Want(t, append(contract.RecordActions(), contract.CreateActions()...))
	reads.Want(t, contract.RecordActions())
	for _, key := range calls.Keys() {
		if key != contract.MACKeyKey {
			t.Errorf("items: got %q, want only the item of the key", key)
		}
	}
}
