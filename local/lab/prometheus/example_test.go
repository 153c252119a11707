package prometheus_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/otellimit"
)

// Prometheus reads the decisions of a server at /metrics.
func Example() {
	exporter, err := prometheus.New(prometheus.WithoutScopeInfo())
	if err != nil {
		fmt.Println(err)
		return
	}
	observer := otellimit.Observer(metric.NewMeterProvider(metric.WithReader(exporter)))
	limit := httplimit.PerIP(2, time.Hour, httplimit.WithObserver(observer))

	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.Handler())
	mux.Handle("/", limit.Wrap(http.NotFoundHandler()))

	for range 5 {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)) //nolint:noctx // as a reader would write it
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)) //nolint:noctx // as a reader would write it
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "weir_decisions_total") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// weir_decisions_total{weir_limit_name="ip",weir_outcome="allowed"} 2
	// weir_decisions_total{weir_limit_name="ip",weir_outcome="refused"} 3
}
