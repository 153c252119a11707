package boot_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
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
