package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/local/gateway"
)

// start is the time of the gateway's clock in these tests.
var start = time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)

// stub is a Lambda function that records its events and calls a Go function of the test.
type stub struct {
	answer func(ctx context.Context, event []byte) ([]byte, error)

	mu     sync.Mutex
	events [][]byte
}

func (s *stub) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	s.mu.Lock()
	s.events = append(s.events, bytes.Clone(event))
	s.mu.Unlock()
	return s.answer(ctx, event)
}

// event returns the event that the stub received. It fails the test if the stub received none or
// several.
func (s *stub) event(t *testing.T) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) != 1 {
		t.Fatalf("events: got %d, want 1", len(s.events))
	}
	return s.events[0]
}

func (s *stub) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

func says(answer string) *stub {
	return &stub{answer: func(context.Context, []byte) ([]byte, error) { return []byte(answer), nil }}
}

// fails returns a function that always fails with the error message.
func fails(message string) *stub {
	return &stub{answer: func(context.Context, []byte) ([]byte, error) { return nil, errors.New(message) }}
}

// allows returns the answer of an authorizer that allows every resource.
func allows(context string) string {
	return authorization("user", "Allow", "arn:aws:execute-api:us-east-1:123456789012:*", context)
}

func denies(context string) string {
	return authorization("user", "Deny", "arn:aws:execute-api:us-east-1:123456789012:*", context)
}

func authorization(principal, effect, resource, context string) string {
	return `{"principalId":"` + principal + `","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],` +
		`"Effect":"` + effect + `","Resource":["` + resource + `"]}]},"context":` + context + `}`
}

// functions are the handler ("Function") and the authorizer ("Guard") of an API.
type functions map[string]lambda.Handler

func newAPI(t testing.TB, r recording, f functions, clock func() time.Time) *gateway.API {
	t.Helper()
	for _, id := range []string{"Function", "Guard"} {
		if f[id] == nil {
			f[id] = says(`{"statusCode":200}`)
		}
	}
	if !r.Authorizer {
		delete(f, "Guard")
	}
	return apisOf(t, r.stack(t), r.Methods, f, clock)[r.API]
}

func apisOf(t testing.TB, s *gateway.Stack, routes []string, f functions, clock func() time.Time) map[gateway.Kind]*gateway.API {
	t.Helper()
	o := gateway.Options{Handler: f["Function"], Authorizer: f["Guard"], Clock: clock, Logger: slog.New(slog.DiscardHandler)}
	apis, err := gateway.New(s, routes, o)
	if err != nil {
		t.Fatal(err)
	}
	return map[gateway.Kind]*gateway.API{gateway.REST: apis[0], gateway.HTTP: apis[1]}
}

// everywhere are routes of every path.
var everywhere = []string{"ANY /", "ANY /{proxy+}"}

func frozen() time.Time { return start }

// plain is a REST API without an authorizer, and guarded one with an authorizer.
var (
	plain   = recording{API: gateway.REST, Stage: "test", Methods: []string{"ANY /", "ANY /open/{proxy+}"}}
	guarded = recording{API: gateway.REST, Stage: "test", Methods: []string{"GET /guarded", "ANY /guarded/{proxy+}"}, Authorizer: true}
)

func checkHeaders(t *testing.T, got http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), value)
		}
	}
}

func serve(t testing.TB, api *gateway.API) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return server
}

type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request that has only the given headers, each in the form "Name: value".
func send(t testing.TB, server *httptest.Server, method, path, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header[name] = append(r.Header[name], value)
	}
	if r.Header["User-Agent"] == nil {
		r.Header["User-Agent"] = []string{""} // prevents the default User-Agent of the client
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // the loop below reads the whole body
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

func decode[T any](t testing.TB, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("JSON %s: got error %v, want none", data, err)
	}
	return v
}

// Handlers run concurrently. The test runs two invocations
// that wait for each other.
func TestAPI_Concurrent_OwnHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both sync.WaitGroup
		both.Add(2)
		function := &stub{answer: func(context.Context, []byte) ([]byte, error) {
			both.Done()
			both.Wait()
			return []byte(`{"statusCode":200}`), nil
		}}
		api := newAPI(t, plain, functions{"Function": function}, frozen)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if got := do(api, request(t, "GET", "/", http.NoBody)); got.status != http.StatusOK {
					t.Errorf("status: got %d, want 200", got.status)
				}
			})
		}
		wg.Wait()
	})
}

// The log line of a failure contains the id of the request but no part of its content.
func TestAPI_Log(t *testing.T) {
	var log bytes.Buffer
	apis, err := gateway.New(guarded.stack(t), guarded.Methods, gateway.Options{
		Authorizer: says(allows("{}")), Handler: fails("out of order"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "GET", "/guarded?secret=1", io.NopCloser(strings.NewReader("")))
	r.Header.Set("Authorization", "secret")
	got := do(apis[0], r)
	for _, want := range []string{"function failed", "request=" + got.header.Get("x-amzn-RequestId"), "out of order"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log: got %q, want it to contain %q", log.String(), want)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("log: got %q, want no content of the request", log.String())
	}
}
