package httplimit_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// BenchmarkGate measures a request to a handler behind a Gate with a store in memory.
func BenchmarkGate(b *testing.B) {
	for name, rate := range map[string]algo.Rate{
		"allowed": {Requests: 1e9, Window: time.Hour},
		"refused": {Requests: 1, Window: 24 * time.Hour},
	} {
		b.Run(name, func(b *testing.B) {
			l := limit(b, "search", rate)
			gate := httplimit.New(httplimit.Options{
				Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})),
					limiter.Options{Logger: slog.New(slog.DiscardHandler)})),
				Select: func(_ context.Context, _ time.Time, r rules.Request) rules.Selection {
					return rules.Selection{Charges: []limiter.Charge{{Subject: r.Caller.Subject(), Limit: l, Cost: 1}}}
				},
				Identify: func(context.Context, time.Time, httplimit.Request) (caller.Caller, error) {
					return caller.Caller{User: "alice"}, nil
				},
				Observe: func(context.Context, telemetry.Outcome) {},
			})
			h := gate.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/search", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}

// BenchmarkPerIP measures a request to a handler behind PerIP and a proxy.
func BenchmarkPerIP(b *testing.B) {
	h := httplimit.PerIP(1e9, time.Hour, httplimit.WithTrustedProxies("10.0.0.0/8")).Wrap(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
	}))
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/search", http.NoBody)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
