package telemetry_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// The handler logs one line a second for each message, with the number of suppressed records.
func TestRateLimitedHandler(t *testing.T) {
	var log bytes.Buffer
	plain := slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	h := telemetry.NewRateLimitedHandler(plain)
	handle := func(h slog.Handler, after time.Duration, message string, n int) {
		t.Helper()
		r := slog.NewRecord(noon.Add(after), slog.LevelError, message, 0)
		r.AddAttrs(slog.Int("n", n))
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		handle(h, 0, "refused", i)
	}
	handle(h.WithAttrs([]slog.Attr{slog.String("by", "x")}), time.Second-1, "refused", 1000)
	handle(h, 0, "failed", 1)
	handle(h.WithGroup("g"), time.Second, "refused", 1001)
	handle(h, 2*time.Second, "refused", 1002)
	handle(h, -time.Hour, "refused", 1003) // the clock was set back
	want := "msg=refused n=0\nmsg=failed n=1\nmsg=refused g.n=1001 g.suppressed=1000\nmsg=refused n=1002\nmsg=refused n=1003\n"
	if got := log.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	log.Reset()
	for i := range 100_000 { // 100,000 different messages, as if they contained client input
		handle(h, time.Hour, fmt.Sprint("message ", i), i)
	}
	if n := strings.Count(log.String(), "\n"); n > 101 {
		t.Errorf("got %d lines, want at most 101", n)
	}
	if telemetry.NewRateLimitedHandler(plain).Enabled(context.Background(), slog.LevelDebug) {
		t.Error("Enabled: got true for a level that the wrapped handler disables, want false")
	}
}

// Records with the same message but different reasons of a store failure are logged separately.
func TestRateLimitedHandler_reason(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(telemetry.NewRateLimitedHandler(slog.NewTextHandler(&log, nil)))
	for range 3 {
		for _, reason := range []limiter.Reason{limiter.ReasonTimeout, limiter.ReasonBreaker} {
			logger.Error("store failed", "reason", string(reason))
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "reason=store_timeout") ||
		!strings.Contains(log.String(), "reason=store_breaker") {
		t.Errorf("got %s, want one line for each of the two reasons", &log)
	}
}
