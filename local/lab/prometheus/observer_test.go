package prometheus_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/otellimit"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// observed sends outcomes to an Observer, and returns the metrics by name, and the events of the span of each outcome.
func observed(t *testing.T, outcomes ...telemetry.Outcome) (metrics map[string]metricdata.Metrics, events [][]trace.Event) {
	t.Helper()
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	observe := otellimit.Observer(metric.NewMeterProvider(metric.WithReader(reader)))
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	for _, o := range outcomes {
		ctx, span := tracer.Start(t.Context(), "request")
		observe(ctx, o)
		span.End()
	}
	observe(context.Background(), telemetry.Outcome{}) // without a span
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	metrics = map[string]metricdata.Metrics{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		metrics[m.Name] = m
	}
	for _, span := range spans.Ended() {
		events = append(events, span.Events())
	}
	return metrics, events
}

func text(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

func TestObserver(t *testing.T) {
	search, err := limiter.NewLimit(limiter.Limit{Name: "search", Rule: "GET /search", Rate: algo.Rate{Requests: 10, Window: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	alice := caller.Caller{User: "alice"}
	metrics, events := observed(t,
		telemetry.Outcome{Caller: alice, Duration: 2 * time.Millisecond, Decision: limiter.Decision{Allowed: true, Limit: search, Remaining: 9,
			StoreCalls: 1, StoreTime: time.Millisecond}},
		telemetry.Outcome{Caller: alice, Duration: 4 * time.Millisecond, Decision: limiter.Decision{Allowed: true, Limit: search, Remaining: 8,
			StoreCalls: 1, StoreTime: 3 * time.Millisecond}},
		telemetry.Outcome{Caller: alice, Decision: limiter.Decision{Limit: search, RetryAfter: 1500 * time.Millisecond, FromCache: true}},
		telemetry.Outcome{Caller: alice, Decision: limiter.Decision{Failed: true, Reason: limiter.ReasonTimeout, StoreCalls: 1,
			StoreTime: 50 * time.Millisecond}},
		telemetry.Outcome{Err: caller.ErrInvalidCredential, Decision: limiter.Decision{Allowed: true}},
	)
	var got []string
	for _, p := range metrics["weir.decisions"].Data.(metricdata.Sum[int64]).DataPoints {
		got = append(got, text(p.Attributes)+strings.Repeat("+", int(p.Value)))
	}
	slices.Sort(got)
	if want := []string{
		"error.type=store_timeout,weir.outcome=failed+",
		"weir.limit.name=search,weir.limit.rule=GET /search,weir.outcome=allowed++",
		"weir.limit.name=search,weir.limit.rule=GET /search,weir.outcome=refused+",
		"weir.outcome=refused+",
		"weir.outcome=unauthorized+",
	}; !slices.Equal(got, want) {
		t.Errorf("decisions:\n got %q\nwant %q", got, want)
	}
	for name, want := range map[string]map[string]float64{
		"weir.decision.duration": {"weir.outcome=allowed": 0.006, "weir.outcome=refused": 0, "weir.outcome=failed": 0,
			"weir.outcome=unauthorized": 0},
		"weir.store.duration": {"": 0.004, "error.type=store_timeout": 0.05},
	} {
		points := metrics[name].Data.(metricdata.Histogram[float64]).DataPoints
		if metrics[name].Unit != "s" || len(points) != len(want) {
			t.Errorf("%s: got unit %q and %d series, want s and %d", name, metrics[name].Unit, len(points), len(want))
		}
		for _, p := range points {
			if sum, ok := want[text(p.Attributes)]; !ok || p.Sum != sum {
				t.Errorf("%s of %q: got %g s, want %g", name, text(p.Attributes), p.Sum, sum)
			}
		}
	}
	var seen []string
	for _, of := range events {
		for _, e := range of {
			seen = append(seen, e.Name+" "+text(attribute.NewSet(e.Attributes...)))
		}
	}
	if want := []string{
		"weir.decision weir.limit.name=search,weir.limit.remaining=9,weir.limit.rule=GET /search,weir.outcome=allowed",
		"weir.decision weir.limit.name=search,weir.limit.remaining=8,weir.limit.rule=GET /search,weir.outcome=allowed",
		"weir.decision weir.limit.name=search,weir.limit.remaining=0,weir.limit.rule=GET /search,weir.outcome=refused,weir.retry_after=1.5",
		"weir.decision error.type=store_timeout,weir.outcome=failed",
		"weir.decision weir.outcome=unauthorized",
	}; !slices.Equal(seen, want) {
		t.Errorf("events:\n got %q\nwant %q", seen, want)
	}
}

// The middleware passes the context of each request to its observer.
func TestObserver_middleware(t *testing.T) {
	reader, spans := metric.NewManualReader(), tracetest.NewSpanRecorder()
	h := httplimit.PerIP(1, time.Hour, httplimit.WithObserver(otellimit.Observer(metric.NewMeterProvider(metric.WithReader(reader))))).
		Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(spans)).Tracer("test")
	for range 2 {
		ctx, span := tracer.Start(t.Context(), "request")
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		span.End()
	}
	for i, want := range []string{"allowed", "refused"} {
		if events := spans.Ended()[i].Events(); len(events) != 1 || !slices.Contains(events[0].Attributes, attribute.String("weir.outcome",
			want)) {
			t.Errorf("request %d: got events %v, want one with the outcome %s", i, events, want)
		}
	}
}
