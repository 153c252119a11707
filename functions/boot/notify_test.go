package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/decisionlog"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

type sink struct{ events []decisionlog.Event }

// Send implements decisionlog.Sink.
func (s *sink) Send(_ context.Context, batch [][]byte) (int, error) {
	for _, line := range batch {
		var e decisionlog.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return len(batch), err
		}
		s.events = append(s.events, e)
	}
	return 0, nil
}

// An environment writes notices to the log and to the decision events, with the same id.
func TestConfig_Environment_notices(t *testing.T) {
	var metrics bytes.Buffer
	var sent sink
	c, err := boot.Load(lookup("NAMESPACE=a", "STORE=memory", "RULES_VERSION=1"))
	if err != nil {
		t.Fatal(err)
	}
	store := storetest.Must(memstore.New(memstore.Options{}))
	e, err := c.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler), Metrics: &metrics, Sink: &sent})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	quota := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "month", Rate: algo.Rate{Requests: 10, Calendar: algo.Calendar{Period: algo.Month}}, Notify: limiter.Percentages{80}}))
	if _, err := e.Limiter.Take(t.Context(), now, []limiter.Charge{{Subject: limiter.User("alice"), Limit: quota, Cost: 8}}); err != nil {
		t.Fatal(err)
	}
	e.Events.Close(t.Context(), now)
	var line struct {
		Weir, ID, Subject string
		Percent           int
	}
	first, _, _ := strings.Cut(metrics.String(), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil || line.Weir != "notice" || line.Percent != 80 || len(line.Subject) != 16 {
		t.Fatalf("got line %s, error %v, want the notice", first, err)
	}
	if len(sent.events) != 1 || sent.events[0].Notice == nil || sent.events[0].Notice.ID != line.ID || sent.events[0].Subject != line.Subject {
		t.Errorf("got events %+v, want one with the notice %s", sent.events, line.ID)
	}
}
