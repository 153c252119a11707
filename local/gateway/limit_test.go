package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-limits/weir/local/gateway"
)

const tenMB = 10 << 20

// endless is a request body without an end. It counts the bytes that the gateway reads.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	b = b[:min(len(b), 1<<16)]
	e.read += len(b)
	if e.read > 4*tenMB {
		return 0, errors.New("read too far")
	}
	clear(b)
	return len(b), nil
}

func request(t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), method, "http://api.example.com"+path, body)
}

func do(api http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	header := http.Header{}
	for name, values := range w.Header() { // Header.Set would change the spelling of the names
		header[http.CanonicalHeaderKey(name)] = values
	}
	return answer{w.Code, header, w.Body.String()}
}

// both runs a test against a REST API and an HTTP API. Each has one function, a stub.
func both(t *testing.T, test func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub)) {
	t.Helper()
	for _, kind := range []gateway.Kind{gateway.REST, gateway.HTTP} {
		t.Run(string(kind), func(t *testing.T) {
			function, r := says(`{"statusCode":200}`), plain
			r.API = kind
			test(t, kind, newAPI(t, r, functions{"Function": function}, frozen), function)
		})
	}
}

func TestLimit_Body(t *testing.T) {
	want := map[gateway.Kind]string{
		gateway.REST: "HTTP content length exceeded 10485760 bytes.",
		gateway.HTTP: `{"message":"Request Entity Too Large"}`,
	}
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		// Key: Content-Length, -1 for none. Value: the number of body bytes that the gateway may
		// read.
		for length, most := range map[int64]int{-1: tenMB + 1<<20, tenMB + 1: 0} {
			body := &endless{}
			r := request(t, "POST", "/open/x", body)
			r.ContentLength = length
			got := do(api, r)
			if got.status != http.StatusRequestEntityTooLarge || got.body != want[kind] || function.calls() != 0 {
				t.Errorf("response and calls: got %d %s and %d, want 413 %s and 0 calls", got.status, got.body, function.calls(), want[kind])
			}
			if body.read > most {
				t.Errorf("length %d: got %d bytes read, want at most %d", length, body.read, most)
			}
		}
	})
}

// A body within API Gateway's limit can still result in an event that exceeds Lambda's limit.
func TestLimit_Event(t *testing.T) {
	want := map[gateway.Kind]string{gateway.REST: `{"message":"Request Too Long"}`, gateway.HTTP: `{"message":"Request Entity Too Large"}`}
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		r := request(t, "POST", "/open/x", strings.NewReader(strings.Repeat("x", 6<<20)))
		r.Header.Set("Content-Type", "text/plain")
		got := do(api, r)
		if got.status != http.StatusRequestEntityTooLarge || got.body != want[kind] || function.calls() != 0 {
			t.Errorf("response and calls: got %d %s and %d, want 413 %s and 0 calls", got.status, got.body, function.calls(), want[kind])
		}
		r = request(t, "POST", "/open/x", strings.NewReader(strings.Repeat("x", 6<<20-4096)))
		r.Header.Set("Content-Type", "text/plain")
		if got := do(api, r); got.status != http.StatusOK {
			t.Errorf("event just below the limit: got status %d, want 200", got.status)
		}
	})
}

// The test has a clock of its own, because on a busy machine an answer of this size can exceed the function's timeout.
func TestLimit_Output(t *testing.T) {
	const limit = 6<<20 + 100
	want := map[gateway.Kind]int{gateway.REST: http.StatusBadGateway, gateway.HTTP: http.StatusInternalServerError}
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		fill := `{"statusCode":200,"body":""}`
		for extra, status := range map[int]int{0: http.StatusOK, 1: want[kind]} {
			body := strings.Repeat("x", limit-len(fill)+extra)
			function.answer = func(context.Context, []byte) ([]byte, error) {
				return []byte(`{"statusCode":200,"body":"` + body + `"}`), nil
			}
			synctest.Test(t, func(t *testing.T) {
				if got := do(api, request(t, "GET", "/", http.NoBody)); got.status != status {
					t.Errorf("%d bytes: got status %d, want %d", limit+extra, got.status, status)
				}
			})
		}
	})
}

func TestLimit_Header(t *testing.T) {
	both(t, func(t *testing.T, kind gateway.Kind, api *gateway.API, function *stub) {
		counted := len("api.example.com")
		if kind == gateway.HTTP {
			counted += len("GET / HTTP/1.1")
		}
		for extra, status := range map[int]int{0: http.StatusOK, 1: http.StatusRequestHeaderFieldsTooLarge} {
			r := request(t, "GET", "/", http.NoBody)
			r.Header["X-Large"] = []string{strings.Repeat("x", 5000), strings.Repeat("x", 10240-5000-counted+extra)}
			if got := do(api, r); got.status != status {
				t.Errorf("%d bytes: got status %d, want %d", 10240+extra, got.status, status)
			}
		}
		if function.calls() != 1 {
			t.Errorf("calls: got %d, want 1", function.calls())
		}
	})
}

func TestLimit_URL(t *testing.T) {
	api := newAPI(t, plain, functions{}, frozen)
	for length, status := range map[int]int{10240: http.StatusOK, 10241: http.StatusRequestURITooLong} {
		if got := do(api, request(t, "GET", "/?"+strings.Repeat("x", length-2), http.NoBody)); got.status != status {
			t.Errorf("%d characters: got status %d, want %d", length, got.status, status)
		}
	}
}
