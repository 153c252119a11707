package verify_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/servers"
	"github.com/weir-limits/weir/local/verify"
)

// start is the time of the first request. It is a whole second, so that waits in whole seconds are exact.
var start = time.Date(2100, 3, 4, 12, 0, 30, 0, time.UTC)

// validKey is the API key of a record.
var validKey = caller.NewAPIKey()

type front func(http.Handler) http.Handler

// served returns the REST API and the HTTP API of make run as deployments. fronts receive the requests to the REST API
// before it does.
func served(t *testing.T, store string, fronts ...front) (rest, web *verify.Deployment) {
	t.Helper()
	if variable := servers.Variables[store]; variable != "" {
		storetest.Server(t, store, variable)
	}
	t.Setenv("STORE_TIMEOUT", "900ms") // a busy machine is slower than the default permits
	c := checkouttest.Scratch(t)
	_, err := c.Seed()
	secret, missing := os.ReadFile(c.APIKeySecretFile())
	records, _ := json.Marshal([]caller.Record{{ID: "valid", Hash: caller.HashAPIKey(secret, validKey)}})
	token, unsigned := c.Token("vera", "", time.Until(start)+time.Hour, nil)
	document, unread := os.ReadFile(c.Path("functions", "rules.json"))
	parsed, wrong := checkout.ParseRules(document)
	if err := errors.Join(err, missing, os.WriteFile(c.APIKeysFile(), records, 0o600), unsigned, unread, wrong); err != nil {
		t.Fatal(err)
	}
	clock := &commandtest.Clock{}
	clock.Set(start)
	s := serve.New(serve.Options{API: sample.New, Store: store, Rules: "functions/rules.json", Namespace: checkouttest.Namespace(),
		Out: io.Discard, Log: io.Discard, Logger: slog.New(slog.DiscardHandler), Clock: clock.Now})
	t.Cleanup(s.Close)
	first, second := commandtest.Serve(t, func([]string) ([]http.Handler, error) {
		handlers, err := s.Open(t.Context())
		for _, f := range fronts {
			if err == nil {
				handlers[0] = f(handlers[0])
			}
		}
		return handlers, err
	})
	deployment := func(url string) *verify.Deployment {
		return &verify.Deployment{
			URL: url, Rules: parsed, APIKey: validKey, Token: token, APIKeyHeader: "x-api-key", MaxWait: time.Minute,
			Clock: clock.Now,
			Routes: []verify.Route{{Method: "GET", Pattern: "/api/v1/search", Path: "/api/v1/search"}, {Method: "GET", Pattern: "/api/v1/items/{id}",
				Path: "/api/v1/items/7"}, {Method: "POST", Pattern: "/api/v1/data", Path: "/api/v1/data"}},
			Wait: func(_ context.Context, d time.Duration) error { clock.Wait(d); return nil },
		}
	}
	return deployment(first.URL), deployment(second.URL)
}

// verified runs all rows. It checks that the run sends no more requests than planned.
func verified(t *testing.T, d *verify.Deployment) []verify.Result {
	t.Helper()
	plan := d.Plan()
	results, err := verify.Run(t.Context(), plan, func(verify.Result) {})
	if err != nil || len(results) != len(verify.Rows()) {
		t.Fatalf("results: got %d, error %v, want one for each row", len(results), err)
	}
	sent := 0
	for _, r := range results {
		sent += r.Requests
	}
	if sent > plan.Requests || plan.Requests > 500 {
		t.Errorf("requests: got %d of %d planned, want at most the planned number, and at most 500", sent, plan.Requests)
	}
	return results
}

func ids(results []verify.Result, outcome verify.Outcome) (list []string) {
	for _, r := range results {
		if r.Outcome == outcome {
			list = append(list, r.Row)
		}
	}
	return list
}

// details describes the rows that did not pass.
func details(results []verify.Result) string {
	var b strings.Builder
	for _, r := range results {
		if r.Outcome != verify.Pass {
			b.WriteString(r.Row + ": " + r.Detail + "\n" + r.Answer + "\n")
		}
	}
	return b.String()
}

func detail(results []verify.Result, row string) string {
	return results[slices.IndexFunc(results, func(r verify.Result) bool { return r.Row == row })].Detail
}

// all are the rows that pass behind make run with credentials. Only the preflight is skipped: it permits no other origin.
var all = []string{"allowed", "unauthorized", "api-key", "token", "routes", "limit-exact", "refused", "forged",
	"retry-after"}

// tries is the maximum number of runs with a store. On a busy machine, the store can miss its deadline.
const tries = 3

// Behind each API of make run, with each store, all rows that apply pass, also a second time for the same caller.
func TestRun_serve(t *testing.T) {
	for _, store := range []string{serve.Memory, "dynamodb", "redis"} {
		t.Run(store, func(t *testing.T) {
			for try := 1; ; try++ {
				rest, web := served(t, store)
				problem := ""
				for _, d := range []*verify.Deployment{rest, web, rest} {
					if results := verified(t, d); !slices.Equal(ids(results, verify.Pass), all) {
						problem += details(results)
					}
				}
				if problem == "" {
					return
				}
				if try == tries || !strings.Contains(problem, string(limiter.ReasonTimeout)) {
					t.Fatal(problem)
				}
			}
		})
	}
}

// answering changes answers.
func answering(change func(*http.Request, *httptest.ResponseRecorder)) front {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorded := httptest.NewRecorder()
			h.ServeHTTP(recorded, r)
			for name, values := range recorded.Header() {
				delete(recorded.Header(), name)
				recorded.Header()[http.CanonicalHeaderKey(name)] = values
			}
			change(r, recorded)
			maps.Copy(w.Header(), recorded.Header())
			w.WriteHeader(recorded.Code)
			_, _ = w.Write(recorded.Body.Bytes())
		})
	}
}

// changing changes requests.
func changing(change func(*http.Request)) front {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			change(r)
			h.ServeHTTP(w, r)
		})
	}
}
