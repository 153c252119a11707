package serve

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/gateway"
)

type down struct{ limiter.Store }

func (down) Take(context.Context, algo.Instant, limiter.Subject, []limiter.Charge, []algo.Result) (bool, error) {
	return false, limiter.ErrUnavailable
}

// newOutage returns APIs whose store always fails, behind a breaker.
func newOutage(t *testing.T, document string) *local {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &local{t: t, checkout: checkouttest.Scratch(t)}
	l.Set(start)
	s := &Server{Options: Options{API: sample.New, Rules: rules, Store: Memory, Out: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: l.Now, Namespace: checkouttest.Namespace()}}
	t.Cleanup(s.Close)
	template, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, handlers := storetest.Must(resilient.New(down{}, resilient.Options{Pause: time.Hour})), map[string]lambda.Handler{}
	for _, f := range template.Functions() {
		role := f.Environment[contract.VariableFunction]
		c, err := clients.Load(s.lookup(f.Environment))
		if err != nil {
			t.Fatal(err)
		}
		if role != contract.Authorizer && role != contract.Handler {
			handlers[f.ID] = storetest.Must(s.settle(t.Context(), f, c, store))
			continue
		}
		e, err := c.Environment(t.Context(), store, boot.Options{Logger: s.Logger, Clock: l.Now})
		if err != nil {
			t.Fatal(err)
		}
		handlers[f.ID] = lambdahttp.NewHandler(e, sample.New(e))
		if role == contract.Authorizer {
			handlers[f.ID] = lambdahttp.NewAuthorizer(e)
		}
	}
	g, err := gateway.New(template, gateway.Options{Functions: handlers, Logger: s.Logger, Clock: l.Now})
	if err != nil {
		t.Fatal(err)
	}
	l.rest, l.http = httptest.NewServer(g.APIs()[0]), httptest.NewServer(g.APIs()[1])
	t.Cleanup(l.rest.Close)
	t.Cleanup(l.http.Close)
	return l
}

// While the store fails, each value of on_error leads to its documented answer on both APIs.
func TestServe_onError(t *testing.T) {
	l := newOutage(t, `{"version":1,"rules":[
		{"endpoint":"/api/v1/search","on_error":"allow","limits":{"*":{"requests":10,"window":"1m"}}},
		{"endpoint":"/api/v1/data","on_error":"local","local_processes":10,"limits":{"*":{"requests":10,"window":"1m","algorithm":"fixed_window"}}},
		{"endpoint":"/api/v1/items/{id}","on_error":"deny","limits":{"*":{"requests":10,"window":"1m"}}}]}`)
	for name, api := range map[string]*httptest.Server{"REST API": l.rest, "HTTP API": l.http} {
		for _, c := range []struct {
			method, path string
			statuses     []int
		}{
			{http.MethodGet, "/api/v1/search", []int{200, 200, 200}},
			{http.MethodPost, "/api/v1/data", []int{201, 429, 429}},
			{http.MethodGet, "/api/v1/items/1", []int{503, 503, 503}},
		} {
			for i, status := range c.statuses {
				r := l.send(api, c.method, c.path, "")
				if r.StatusCode != status {
					t.Fatalf("%s: %s, request %d: got %s, want %d: %s", name, c.path, i+1, r.Status, status, r.Text)
				}
				reason := r.Header.Get("Weir-Degraded")
				// The REST API answers a 503 of the authorizer with a static response, which lacks
				// Weir-Degraded.
				if static := status == 503 && api == l.rest; !static && reason != "store_unavailable" && reason != "store_breaker" || static && reason != "" {
					t.Errorf("%s: %s, request %d: got Weir-Degraded %q, want store_unavailable or store_breaker (none in a static response)", name, c.path, i+1, reason)
				}
				if status < 400 {
					continue
				}
				var problem struct{ Type, Error string }
				if err := json.Unmarshal([]byte(r.Text), &problem); err != nil || r.Header.Get("Content-Type") != "application/problem+json" || r.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %s: got %v %s (error %v), want application/problem+json and Retry-After", name, c.path, r.Header, r.Text, err)
				}
				if status == 503 && (r.Header.Get("Retry-After") != "1" || problem.Error != map[bool]string{true: "authorizer_failed", false: "store_unavailable"}[api == l.rest]) {
					t.Errorf("%s: got %v %s, want Retry-After: 1 and the error authorizer_failed (REST) or store_unavailable (HTTP)", name, r.Header, r.Text)
				}
			}
		}
	}
}
