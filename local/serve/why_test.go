package serve

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/why"
)

// The gateway answers who was refused, why and how often, at once and without a further request. It knows the names of its callers.
// Neither the answer nor the log has the path of a request, and the log has no name.
func TestServe_why(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(file, []byte(`{"rules":[
		{"endpoint":"/api/v1/items/{id}","limits":{"*":{"name":"items","requests":2,"window":"1h"}}},
		{"endpoint":"/api/v1/items/{id}","mode":"shadow","limits":{"*":{"name":"tried","requests":1,"window":"1h"}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLocal(t, "memory", file)
	client, err := operator.NewGateway(l.rest.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q why.Question) why.Refusals {
		t.Helper()
		answer, err := operator.Ask[why.Refusals](t.Context(), client, why.Path, q)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	token := l.token("alice", "free")
	for range 42 {
		l.send(l.rest, http.MethodGet, "/api/v1/items/secret", token)
	}
	l.send(l.http, http.MethodGet, "/api/v1/items/secret", token)
	a := ask(why.Question{Subject: "user:alice", Since: "1m"})
	if a.Count != 41 || len(a.Rows) != 1 {
		t.Fatalf("answer: got %+v, want one row with 41 refusals", a)
	}
	row := a.Rows[0]
	if row.Caller != "user:alice" || row.Rule != "/api/v1/items/{id}" || row.Limit != "items" || row.Capacity != 2 || row.Remaining != 0 ||
		row.RetryAfter < 3598 || row.RetryAfter > 3600 || row.Last.Sub(start) > time.Second {
		t.Errorf("row: got %+v, want alice, the pattern, the limit, 0 of 2 left and a wait of an hour", row)
	}
	if a := ask(why.Question{Shadow: true}); a.Count != 1 || len(a.Rows) != 1 || a.Rows[0].Limit != "tried" ||
		a.Rows[0].Caller != "user:alice" {
		t.Errorf("shadow mode: got %+v, want one request of alice over the limit tried", a)
	}
	log, err := os.ReadFile(l.checkout.MetricsFile())
	if err != nil || !bytes.Contains(log, []byte(row.Subject)) || bytes.Contains(log, []byte("secret")) ||
		bytes.Contains(log, []byte("alice")) || bytes.Contains(log, []byte("127.0.0.1")) {
		t.Errorf("log: got %s, error %v, want the hash, and neither the path nor a name", log, err)
	}
	lines := map[string]int{}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(`"weir":"refused"`)) {
			lines[string(line)]++
		}
	}
	if len(lines) > 3 {
		t.Errorf("lines of refusals: got %v, want at most one a second of each function", lines)
	}
}

// While the gateway runs, it writes waiting metrics within a second, without a further request.
func TestServer_flushMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := telemetry.New(&log, "dev", nil)
		s := &Server{Options: Options{API: sample.New, Clock: time.Now}, recorders: []*telemetry.Recorder{nil, r}}
		ctx, stop := context.WithCancel(t.Context())
		go s.flushMetrics(ctx)
		for i := range 41 {
			r.Record(telemetry.Outcome{Time: time.Now(), Caller: caller.Caller{User: fmt.Sprint("user", i)}, Decision: limiter.Decision{}})
		}
		time.Sleep(time.Second + metricsPoll) // advances the synthetic clock
		synctest.Wait()
		if !strings.Contains(log.String(), `"Refused":40`) {
			t.Errorf("log after a second: got %s, want the other 40 refusals", &log)
		}
		stop()
		synctest.Wait()
	})
}
