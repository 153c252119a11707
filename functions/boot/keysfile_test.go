package boot_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A change of the key file applies to the next request. While the file has a mistake, no key can be verified.
func TestEnvironment_keysFile(t *testing.T) {
	record := func(id string) string {
		return `[{"id":"` + id + `","hash":"` + caller.HashAPIKey([]byte("0123456789abcdef"), "the-key") + `"}]`
	}
	records := write(t, "apikeys.json", record("first"))
	c := load(t, "STORE=memory:", "WEIR_LOCAL=true", "API_KEYS_FILE="+records, "API_KEY_SECRET_FILE="+write(t, "secret", "0123456789abcdef"))
	store := storetest.Must(memstore.New(memstore.Options{}))
	e := storetest.Must(c.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	find := storetest.Must(c.FindRecord(t.Context()))
	for _, id := range []string{"first", "other", "", "third"} { // the same size, a mistake, the same size as before the mistake
		next := records + ".next"
		if err := os.WriteFile(next, []byte(record(id)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, records); err != nil {
			t.Fatal(err)
		}
		found, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{APIKey: "the-key"})
		_, known, findErr := find(t.Context(), id)
		if id == "" {
			if !errors.Is(err, caller.ErrUnverified) || findErr == nil {
				t.Errorf("mistake: got errors %v and %v, want ErrUnverified and one", err, findErr)
			}
		} else if err != nil || found.APIKey != id || !known {
			t.Errorf("%s: got %+v, error %v, known to operators: %t, want the record", id, found, err, known)
		}
	}
}
