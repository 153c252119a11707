package boot_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
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
	"github.com/weir-limits/weir/limiter/telemetry"
)

// hashOf starts an environment. It returns the hash of the caller alice in this environment, and the
// environment's log.
func hashOf(t *testing.T, c boot.Config) (hash, log string) {
	t.Helper()
	var out bytes.Buffer
	of, err := c.SubjectHash(t.Context(), slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return of(limiter.User("alice")), out.String()
}

// All environments use the same hash key from the first start on. An environment that cannot read the
// key uses a random key and logs a warning.
func TestConfig_SubjectHash(t *testing.T) {
	d := newDeployment(t, "NAMESPACE=dev", "STORE=memory:")
	c := load(t, "NAMESPACE=dev", "STORE=memory:", "RECORDS_TABLE="+d.table, "DYNAMODB_ENDPOINT="+d.endpoint, "WEIR_LOCAL=true")
	first, log := hashOf(t, c)
	if second, _ := hashOf(t, c); first != second || log != "" {
		t.Errorf("in a new table: hashes %s and %s, logged %q; want equal hashes and no warning", first, second, log)
	}
	key, err := records.NewTable(d.client, d.table).Secret(t.Context(), contract.SubjectKeyKey)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, log := hashOf(t, c); got != telemetry.NewSubjectHash("dev", key)(limiter.User("alice")) || log != "" {
			t.Errorf("with a key: got hash %s, logged %q; want the hash with this key and no log", got, log)
		}
	}
	d.shut.Store(true)
	first, log = hashOf(t, c)
	if second, _ := hashOf(t, c); first == second || !strings.Contains(log, "subject hash key not read") {
		t.Errorf("the table fails: got hashes %s and %s, logged %q; want different hashes and a warning", first, second, log)
	}
	file := write(t, "key", "sixteen bytes or more")
	if got, log := hashOf(t, load(t, "NAMESPACE=dev", "STORE=memory:", "WEIR_LOCAL=true", "SUBJECT_KEY_FILE="+
		file)); got != telemetry.NewSubjectHash("dev", []byte("sixteen bytes or more"))(limiter.User("alice")) || log != "" {
		t.Errorf("with a file: got hash %s, logged %q; want the hash with the file's key and no log", got, log)
	}
	short := load(t, "NAMESPACE=dev", "STORE=memory:", "WEIR_LOCAL=true", "SUBJECT_KEY_FILE="+write(t, "short", "short"))
	if _, err := short.SubjectHash(t.Context(), slog.Default()); err == nil || !strings.Contains(err.Error(), "SUBJECT_KEY_FILE") {
		t.Errorf("short key: got error %v, want one about SUBJECT_KEY_FILE", err)
	}
	if _, err := boot.Load(lookup("NAMESPACE=dev", "STORE=memory:", "SUBJECT_KEY_FILE="+file)); err == nil || !strings.Contains(err.Error(),
		"SUBJECT_KEY_FILE") {
		t.Errorf("key file at AWS: got error %v, want one about SUBJECT_KEY_FILE", err)
	}
}

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
