package boot_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// An environment writes notices to the log.
func TestConfig_Environment_notices(t *testing.T) {
	var metrics bytes.Buffer
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
		t.Fatal(err)
	}
	c := storetest.Must(boot.Load(lookup("NAMESPACE=a", "STORE=memory:", "RULES_VERSION=1", "WEIR_LOCAL=true", "SUBJECT_KEY_FILE="+key)))
	store := storetest.Must(memstore.New(memstore.Options{}))
	e := storetest.Must(c.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Metrics: &metrics}))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	quota := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "month", Rate: algo.Rate{Requests: 10,
		Calendar: algo.Calendar{Period: algo.Month}}, Notify: limiter.Percentages{80}}))
	if _, err := e.Limiter.Take(t.Context(), now, []limiter.Charge{{Subject: limiter.User("alice"), Limit: quota, Cost: 8}}); err != nil {
		t.Fatal(err)
	}
	var line struct {
		Weir, ID, Subject string
		Percent           int
	}
	first, _, _ := strings.Cut(metrics.String(), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Weir != "notice" || line.Percent != 80 || len(line.Subject) != 16 {
		t.Fatalf("got line %s, error %v, want the notice", first, err)
	}
}
