package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Each notice is a line, and is counted. No line contains the name of the subject.
func TestRecorder_Notice(t *testing.T) {
	var out bytes.Buffer
	r := telemetry.New(&out, "dev", telemetry.NewSubjectHash("dev", []byte("0123456789abcdef")))
	month := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "month", Rule: "GET /a", Rate: algo.Rate{Requests: 10,
		Calendar: algo.Calendar{Period: algo.Month}}}))
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	n := limiter.Notice{Time: at, Subject: limiter.User("alice"), Limit: month, Percent: 80, Used: 8, Capacity: 10,
		Start: at.AddDate(0, 0, -20), End: at.AddDate(0, 0, 10)}
	for range 3 { // no line is suppressed
		if err := r.Notice(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	lines, notices, counted := strings.Split(strings.TrimSpace(out.String()), "\n"), 0, 0.0
	for _, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		if n, ok := got[telemetry.Notices].(float64); ok {
			counted += n
		}
		if got["weir"] != "notice" {
			continue
		}
		notices++
		if got["id"] != n.ID(got["subject"].(string)) || got["namespace"] != "dev" || got["limit"] != "month" || got["rule"] != "GET /a" ||
			got["percent"] != 80.0 ||
			got["used"] != 8.0 || got["capacity"] != 10.0 || got["time"] != "2026-11-21T12:00:00Z" || got["start"] != "2026-11-01T12:00:00Z" ||
			got["end"] != "2026-12-01T12:00:00Z" || len(got) != 12 {
			t.Errorf("got line %s, want the notice", line)
		}
	}
	if notices != 3 || counted != 1 || strings.Contains(out.String(), "alice") { // the other two wait for the next line of metrics
		t.Errorf("got %d notices and a count of %v, want 3 and 1, without names: %s", notices, counted, out.String())
	}
	var nobody *telemetry.Recorder
	if err := nobody.Notice(t.Context(), n); err != nil {
		t.Error(err)
	}
}
